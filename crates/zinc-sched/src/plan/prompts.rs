//! Which prompts a step feeds, and how many tokens of each.

use super::{SequenceView, Wanted};
use crate::model::LastToken;
use crate::step::StepKind;

/// How the model feeds a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feeding {
    /// The most tokens of a step.
    pub rows: u32,
    /// How the last token is taken in.
    pub last_token: LastToken,
}

/// The next step that feeds a prompt of which so many tokens are left, the last one included: its kind and its rows. `None` if the last one is all that is
/// left, or nothing.
pub fn prompt_step(left: u32, feeding: Feeding) -> Option<(StepKind, u32)> {
    let Feeding { rows, last_token } = feeding;
    if left <= 1 {
        return None;
    }
    if last_token == LastToken::Fed && left <= rows {
        return Some((StepKind::FeedDecode, left));
    }
    Some((StepKind::Feed, rows.min(left - 1)))
}

/// A part of a step that feeds: tokens of one prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptPart {
    /// The index of the sequence.
    pub index: usize,
    /// What the step is for it.
    pub kind: StepKind,
    /// How many tokens of its prompt the step takes in.
    pub rows: u32,
}

/// The parts of prompts that the next step takes in which feeds, and whether it could take in more; `None` if no prompt is to be fed.
///
/// The prompt with the fewest tokens left comes first. Being passed over since it was fed last counts as if a whole step of it had been fed, so that no prompt waits
/// for ever; of equals the one comes first that was passed over more often. The step has as many rows as suit the first prompt, and what it leaves of them is for
/// the others, in the same order. A prompt is fed up to its next checkpoint at most; a step that ends at one counts as one that could not take in more, since the rest
/// of the prompt comes right behind it.
pub(super) fn next_feed(sequences: &[SequenceView], feed_rows: u32) -> Option<(Vec<PromptPart>, bool)> {
    let urgency = |view: &SequenceView| {
        u64::from(view.feeds_left).saturating_sub(u64::from(view.passed_over) * u64::from(feed_rows))
    };
    let wants = |(index, view): (usize, &SequenceView)| match view.wanted {
        Wanted::Feed(feeding) => Some(((urgency(view), std::cmp::Reverse(view.passed_over), index), feeding)),
        Wanted::Range(_) | Wanted::Sample | Wanted::Nothing => None,
    };
    let mut waiting: Vec<_> = sequences.iter().enumerate().filter_map(wants).collect();
    waiting.sort_unstable_by_key(|(order, ..)| *order);
    let (_, Feeding { rows: mut room, .. }) = *waiting.first()?;
    let (mut parts, mut is_cut) = (Vec::new(), false);
    for ((.., index), feeding) in waiting {
        if room == 0 {
            break;
        }
        let view = &sequences[index];
        let most = view.until_checkpoint.unwrap_or(u32::MAX);
        let feeding = Feeding { rows: room.min(most), ..feeding };
        if let Some((kind, rows)) = prompt_step(view.feeds_left.saturating_add(1), feeding) {
            parts.push(PromptPart { index, kind, rows });
            room -= rows;
            is_cut |= rows == most;
        }
    }
    Some((parts, room > 0 && !is_cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of the next step of at most so many rows that feeds these: whose they are, their rows, and whether they sample; and whether it has room.
    fn parts(sequences: &[(u32, u32)], rows: u32, last_token: LastToken) -> (Vec<(usize, u32, bool)>, bool) {
        let wanted = Wanted::Feed(Feeding { rows, last_token });
        let view =
            |&(feeds_left, passed_over)| SequenceView { wanted, feeds_left, until_checkpoint: None, passed_over };
        let views: Vec<SequenceView> = sequences.iter().map(view).collect();
        let (parts, has_room) = next_feed(&views, rows).expect("there are prompts");
        (parts.iter().map(|part| (part.index, part.rows, part.kind.samples())).collect(), has_room)
    }

    #[test]
    fn short_prompts_come_first_until_long_ones_have_waited_enough() {
        let first = |sequences: &[(u32, u32)]| parts(sequences, 4, LastToken::Alone);
        for (sequences, expected) in [
            ([(40, 0), (6, 0)], 1),
            ([(40, 8), (6, 0)], 1),
            ([(40, 9), (6, 0)], 0),
            ([(6, 0), (10, 1)], 1),
            ([(6, 0), (6, 0)], 0),
            ([(6, 0), (u32::MAX, u32::MAX)], 1),
        ] {
            assert_eq!(first(&sequences), (vec![(expected, 4, false)], false), "{sequences:?}");
        }
    }

    /// Prompts of so many tokens but the last, which have been passed over so often; who feeds how many in the next step of 16 rows, and who samples.
    #[test]
    fn a_step_takes_in_prompts_until_it_is_full() {
        for (sequences, expected, has_room) in [
            // Whole prompts, with their last tokens, as long as there is room for those.
            (&[(3, 0), (5, 0)][..], &[(0, 4, true), (1, 6, true)][..], true),
            (&[(5, 0), (3, 0)], &[(1, 4, true), (0, 6, true)], true),
            (&[(7, 0), (7, 0)], &[(0, 8, true), (1, 8, true)], false),
            // What does not fit is cut, and the last token of one that nearly fits is for a step of its own.
            (&[(40, 0), (3, 0)], &[(1, 4, true), (0, 12, false)], false),
            (&[(3, 0), (12, 0)], &[(0, 4, true), (1, 12, false)], false),
            (&[(7, 0), (7, 0), (1, 0)], &[(2, 2, true), (0, 8, true), (1, 6, false)], false),
            (&[(15, 0), (15, 0)], &[(0, 16, true)], false),
            (&[(16, 0), (1, 0), (1, 0)], &[(1, 2, true), (2, 2, true), (0, 12, false)], false),
            // One that has waited long enough comes first, and leaves room only with its end.
            (&[(40, 3), (3, 0)], &[(0, 16, false)], false),
            (&[(9, 1), (3, 0)], &[(0, 10, true), (1, 4, true)], true),
        ] {
            assert_eq!(parts(sequences, 16, LastToken::Fed), (expected.to_vec(), has_room), "{sequences:?}");
        }
        // The last tokens are left for steps of their own.
        assert_eq!(parts(&[(3, 0), (5, 0)], 16, LastToken::Alone), (vec![(0, 3, false), (1, 5, false)], true));
    }

    #[test]
    fn the_first_prompt_says_how_many_rows_there_are() {
        let of = |left, rows| SequenceView {
            wanted: Wanted::Feed(Feeding { rows, last_token: LastToken::Fed }),
            feeds_left: left,
            until_checkpoint: None,
            passed_over: 0,
        };
        let rows = |sequences: &[SequenceView]| -> Vec<(usize, u32)> {
            let (parts, _) = next_feed(sequences, 64).expect("there are prompts");
            parts.iter().map(|part| (part.index, part.rows)).collect()
        };
        assert_eq!(
            rows(&[of(1_000, 64), of(9, 16)]),
            [(1, 10), (0, 6)],
            "a short prompt does not wait for a long step"
        );
        assert_eq!(rows(&[of(1_000, 64)]), [(0, 64)]);
        assert_eq!(rows(&[of(100, 16), of(70, 64)]), [(1, 64)]);
    }

    /// Prompts of so many tokens but the last, of which so many are up to a checkpoint; who feeds how many in the next step of 16 rows, and whether it could take in more.
    #[test]
    fn a_step_ends_at_a_checkpoint() {
        for (sequences, expected, has_room) in [
            (&[(40, Some(7))][..], &[(0, 7, false)][..], false),
            (&[(40, Some(16))], &[(0, 16, false)], false),
            (&[(40, Some(17))], &[(0, 16, false)], false),
            (&[(9, Some(9))], &[(0, 9, false)], false),
            (&[(9, None)], &[(0, 10, true)], true),
            // Others have what a checkpoint leaves of the step.
            (&[(3, None), (30, Some(5))], &[(0, 4, true), (1, 5, false)], false),
            (&[(20, Some(1)), (30, Some(5)), (40, None)], &[(0, 1, false), (1, 5, false), (2, 10, false)], false),
        ] {
            let wanted = Wanted::Feed(Feeding { rows: 16, last_token: LastToken::Fed });
            let view =
                |&(feeds_left, until_checkpoint)| SequenceView { wanted, feeds_left, until_checkpoint, passed_over: 0 };
            let views: Vec<SequenceView> = sequences.iter().map(view).collect();
            let (parts, room) = next_feed(&views, 16).expect("there are prompts");
            let parts: Vec<_> = parts.iter().map(|part| (part.index, part.rows, part.kind.samples())).collect();
            assert_eq!((&parts[..], room), (expected, has_room), "{sequences:?}");
        }
    }

    /// Of any number of prompts of any lengths, a step feeds as many tokens as there are, or as it has rows, and each prompt once.
    #[test]
    fn no_row_is_left_while_prompts_are() {
        let mut state = 1_u32;
        let mut below = |most: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % most
        };
        for _ in 0..20_000 {
            let rows = 1 + below(40);
            let last_token = if below(2) == 0 { LastToken::Alone } else { LastToken::Fed };
            let sequences: Vec<(u32, u32)> = (0..1 + below(12)).map(|_| (1 + below(60), below(4))).collect();
            let (parts, has_room) = parts(&sequences, rows, last_token);
            let taken: u32 = parts.iter().map(|(_, rows, _)| rows).sum();
            assert_eq!(has_room, taken < rows, "{sequences:?}, {rows} rows");
            for (place, &(index, rows, samples)) in parts.iter().enumerate() {
                let (left, _) = sequences[index];
                assert!(parts[..place].iter().all(|(other, ..)| *other != index), "{sequences:?}: {parts:?}");
                assert_eq!(samples, rows == left + 1, "{sequences:?}: {parts:?}");
                assert!(samples || (1..=left).contains(&rows), "{sequences:?}: {parts:?}");
            }
            let is_whole = |index: usize| {
                let own = parts.iter().find(|(other, ..)| *other == index);
                own.is_some_and(|(_, rows, _)| *rows >= sequences[index].0)
            };
            assert!(!has_room || (0..sequences.len()).all(is_whole), "{sequences:?}, {rows} rows: {parts:?}");
        }
    }
}
