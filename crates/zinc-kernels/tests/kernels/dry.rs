//! DRY on the device and on the host: hand-computed cases, and random histories bit for bit.
//!
//! The definition is p-e-w's (oobabooga/text-generation-webui, pull request 5677, 2024), with sequence breakers and limits as in llama.cpp: if the
//! last n tokens occur once more in the history, followed by a token, and n is at least the allowed length, then that token loses
//! multiplier * base ^ (n - allowed length), for the largest such n. Neither occurrence reaches across a sequence breaker.

use crate::support::chain::{Case, Stages, tables};
use crate::support::data::{Random, live};
use zinc_kernels::reference::StepLimits;
use zinc_kernels::sampler::{Breakers, SamplerSettings};

/// Multiplier 1, base 2 and allowed length 2: repetitions of 2, 3, 4 tokens cost 1, 2, 4.
fn dry() -> SamplerSettings {
    SamplerSettings { dry_multiplier: 1.0, dry_base: 2.0, ..SamplerSettings::OFF }
}

/// Tokens are letters from `a` to `h`.
const VOCABULARY: usize = 8;

fn token(letter: char) -> u32 {
    letter as u32 - 'a' as u32
}

fn tokens(letters: &str) -> Vec<u32> {
    letters.chars().map(token).collect()
}

struct Published {
    name: &'static str,
    settings: SamplerSettings,
    /// Sequence breakers.
    breakers: &'static [&'static str],
    history: &'static str,
    /// What letters lose; others lose nothing.
    lose: &'static [(char, f32)],
}

fn published() -> Vec<Published> {
    let case = |name, history, lose| Published { name, settings: dry(), breakers: &[], history, lose };
    let with = |settings, case| Published { settings, ..case };
    let broken = |breakers, case| Published { breakers, ..case };
    vec![
        case("nothing repeats", "abcdefg", &[]),
        case("`ab` was followed by c: 2^(2-2)", "abcab", &[('c', 1.0)]),
        case("`abc` was followed by d: 2^(3-2)", "abcdabc", &[('d', 2.0)]),
        case("`abcd` was followed by e: 2^(4-2)", "abcdeabcd", &[('e', 4.0)]),
        case("one token is shorter than allowed", "aba", &[]),
        case("`ab` was followed by a", "abab", &[('a', 1.0)]),
        case("repetitions may overlap: `abab` was followed by a", "ababab", &[('a', 4.0)]),
        case("`aaa` was followed by a", "aaaa", &[('a', 2.0)]),
        case("`ab` was followed by c, `eab` by d", "abceabdeab", &[('c', 1.0), ('d', 2.0)]),
        case("the longest counts: `ab` and `abceab` were followed by c", "abceabceab", &[('c', 16.0)]),
        with(
            SamplerSettings { dry_allowed_length: 1, ..dry() },
            case("one token is as long as allowed: `a` was followed by b", "aba", &[('b', 1.0)]),
        ),
        with(
            SamplerSettings { dry_allowed_length: 0, ..dry() },
            case("an empty repetition is as long as allowed: b followed something", "ab", &[('b', 1.0)]),
        ),
        with(
            SamplerSettings { dry_multiplier: 0.5, ..dry() },
            case("the multiplier is a half", "abcab", &[('c', 0.5)]),
        ),
        with(SamplerSettings { dry_base: 1.5, ..dry() }, case("1.5^(4-2)", "abcdeabcd", &[('e', 2.25)])),
        with(SamplerSettings { dry_base: 1.0, ..dry() }, case("1^(3-2)", "abcdabc", &[('d', 1.0)])),
        with(
            SamplerSettings { dry_base: 4_096.0, ..dry() },
            // 14 - 2 = 12 is above 88.72 / ln 4096 = 10.7, beyond which the power is no float.
            case("the exponent is limited: 4096^10", "aaaaaaaaaaaaaaa", &[('a', 1.329_228e36)]),
        ),
        with(
            SamplerSettings { dry_penalty_last_n: 4, ..dry() },
            case("the window begins behind a: `bcab`", "abcab", &[]),
        ),
        with(
            SamplerSettings { dry_penalty_last_n: 5, ..dry() },
            case("the window holds all five", "abcab", &[('c', 1.0)]),
        ),
        broken(&["h"], case("h is a breaker, and never penalised: `abc` was followed by h", "abchabc", &[])),
        broken(
            &["h"],
            case("`hcab` was followed by d, of which `cab` is behind the breaker", "hcabdhcab", &[('d', 2.0)]),
        ),
        broken(
            &["gh"],
            case("`ghcab` was followed by d, of which `cab` is behind the breaker", "ghcabdghcab", &[('d', 2.0)]),
        ),
        broken(&["gh"], case("half of a breaker breaks nothing: `gcab`", "gcabdgcab", &[('d', 4.0)])),
        broken(
            &["g", "gh"],
            case("of breakers at the same place the longest counts: behind `gh` is `ab`", "ghabcghab", &[('c', 1.0)]),
        ),
        broken(&["b"], case("nothing is left behind the breaker", "abcab", &[])),
    ]
}

#[test]
fn published_cases() {
    assert!(published().len() >= 20);
    for Published { name, settings, breakers, history, lose } in published() {
        let breakers = Breakers { tokens: vec![], sequences: breakers.iter().map(|text| tokens(text)).collect() };
        let tables = tables(&settings, VOCABULARY, &breakers);
        let tokens = tokens(history);
        let case = Case {
            logits: &[0.0; VOCABULARY],
            tokens: &tokens,
            drafts: 0,
            tables: &tables,
            limits: StepLimits::default(),
            lane: live(),
        };
        case.check(name);
        let Stages { lists, .. } = case.on_the_host(0);
        let mut expected = [0.0; VOCABULARY];
        for (letter, penalty) in lose {
            expected[token(*letter) as usize] = -penalty;
        }
        let found: Vec<f32> = lists[0].items.iter().map(|item| item.logit).collect();
        assert_eq!(found, expected, "{name}: {history}");
    }
}

/// A history that repeats itself: of few tokens, with copies of itself in it.
fn repetitive(random: &mut Random, len: usize, vocabulary: usize) -> Vec<u32> {
    let mut history = Vec::new();
    while history.len() < len {
        if history.is_empty() || random.below(4) == 0 {
            history.extend((0..=random.below(5)).map(|_| random.below(vocabulary) as u32));
        } else {
            let start = random.below(history.len());
            let end = (start + random.below(40)).min(history.len());
            history.extend_from_within(start..end);
        }
    }
    history.truncate(len);
    history
}

#[test]
fn random_histories() {
    for (len, vocabulary) in [(1, 1), (2, 1), (3, 5), (40, 3), (300, 6), (2_000, 1_031)] {
        for base in [1.0, 1.75, 30.0] {
            let name = format!("{len} of {vocabulary} tokens, base {base}");
            let mut random = Random::new(&name);
            let tokens = repetitive(&mut random, len, vocabulary);
            for (last_n, allowed) in [(-1, 2), (-1, 0), (7, 1), (100, 5), (64, 0)] {
                let settings = SamplerSettings {
                    dry_base: base,
                    dry_penalty_last_n: last_n,
                    dry_allowed_length: allowed,
                    ..dry()
                };
                let sequence =
                    |random: &mut Random, len: usize| (0..len).map(|_| random.below(vocabulary) as u32).collect();
                let broken = Breakers {
                    tokens: (0..vocabulary as u32).filter(|token| token % 50 == 4).collect(),
                    sequences: vec![sequence(&mut random, 2), sequence(&mut random, 3), sequence(&mut random, 21)],
                };
                for breakers in [Breakers::default(), broken] {
                    let tables = tables(&settings, vocabulary, &breakers);
                    for drafts in [0, 1.min(len as u32 - 1), 7.min(len as u32 - 1)] {
                        let case = Case {
                            logits: &vec![0.0; vocabulary],
                            tokens: &tokens,
                            drafts,
                            tables: &tables,
                            limits: StepLimits::default(),
                            lane: live(),
                        };
                        case.check(&format!("{name}, {drafts} drafts, {settings:?}"));
                    }
                }
            }
        }
    }
}
