//! What an answer in harmony has to be, behind thinking or at its beginning.

use zinc_sched::grammar::Outline;

use super::{CHANNEL, CONSTRAIN, MESSAGE, START};

/// A call of the tool of this name. The model may say to whom it goes with the role or with the channel, and which type the arguments are of, as it has
/// learnt both.
pub(in super::super) fn call(name: &str, arguments: Outline) -> Outline {
    let to = format!(" to=functions.{name}");
    let by_role = Outline::Sequence(vec![text(&to), mark(CHANNEL), text("commentary")]);
    let by_channel = Outline::Sequence(vec![mark(CHANNEL), text(&format!("commentary{to}"))]);
    Outline::Sequence(vec![role(), Outline::Choice(vec![by_role, by_channel]), json(), mark(MESSAGE), arguments])
}

/// The header of the message that has the content.
pub(in super::super) fn before_content() -> Outline {
    Outline::Sequence(vec![role(), mark(CHANNEL), text("final"), json(), mark(MESSAGE)])
}

/// The role, which the prompt has given already if there was no thinking.
fn role() -> Outline {
    perhaps(Outline::Sequence(vec![mark(START), text("assistant")]))
}

/// The type of a text.
fn json() -> Outline {
    let marked = Outline::Sequence(vec![text(" "), mark(CONSTRAIN), text("json")]);
    perhaps(Outline::Choice(vec![marked, text(" json")]))
}

fn perhaps(part: Outline) -> Outline {
    Outline::Repeat { part: Box::new(part), min: 0, max: Some(1) }
}

fn text(text: &str) -> Outline {
    Outline::Text(text.to_owned())
}

fn mark(text: &str) -> Outline {
    Outline::Mark(text.to_owned())
}
