//! The parser of answers: any text has parts, and whatever the text is cut into, the parts are the same.

use crate::text::{split, text};
use support::{Setup, after, deepseek, harmony, hermes, llama, without_tools, xml};

#[allow(dead_code, reason = "the tests of the parser, whose file it is, use all of it")]
#[path = "../../crates/zinc-server/tests/output/support.rs"]
mod support;

/// The setups that a number stands for.
fn setups() -> [Setup; 10] {
    [
        hermes(),
        xml(),
        deepseek(),
        llama(),
        harmony(),
        without_tools(hermes()),
        without_tools(deepseek()),
        without_tools(harmony()),
        after("<|im_start|>assistant\n<think>\n", hermes()),
        after("<|im_start|>assistant\n<think>\n", xml()),
    ]
}

/// The first byte chooses the setup, the next four where the text behind them is cut.
///
/// # Panics
/// If a cut changes the parts, or a call that is complete has no object as arguments.
pub fn check(data: &[u8]) {
    let ([setup, cuts @ ..], answer) = split::<5>(data);
    let answer = text(answer);
    let setups = setups();
    let setup = &setups[usize::from(setup) % setups.len()];
    let whole = setup.whole(&answer);
    let characters = answer.char_indices().map(|(at, c)| &answer[at..at + c.len_utf8()]);
    assert_eq!(setup.parts(characters), whole, "{answer:?} cut everywhere");
    let mut places = cuts.map(|cut| answer.floor_char_boundary(answer.len() * usize::from(cut) / 255));
    places.sort_unstable();
    let [a, b, c, d] = places;
    let pieces = [&answer[..a], &answer[a..b], &answer[b..c], &answer[c..d], &answer[d..]];
    assert_eq!(setup.parts(pieces), whole, "{answer:?} cut at {places:?}");
}
