//! The book of checkpoints against a naive one, a list in the order of use: what is found, which slot is claimed, and what is forgotten.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/matrix.rs"]
mod matrix;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use zinc_sched::PagePool;
use zinc_sched::checkpoints::{CheckpointBook, CheckpointPlace};
use zinc_sched::pages::PageBook;

/// Random histories of a book.
const HISTORIES: u32 = 100_000;
/// How many times as many the whole matrix has: a million.
const WHOLE: u32 = 10;

/// Positions and lanes of places, and sequences that take checkpoints.
const POSITIONS: u32 = 5;
const LANES: u32 = 3;
const TAKERS: u64 = 4;

#[derive(Debug, Clone, Copy)]
enum Op {
    /// Another checkpoint is wanted, in the place of the one at a place, if there is one.
    Claim {
        superseded: Option<usize>,
    },
    /// The copy of a claimed slot is that of a place.
    Keep {
        claimed: usize,
        place: usize,
        taker: u64,
    },
    Release {
        claimed: usize,
    },
    /// The model has no memory for a claimed slot.
    Withdraw {
        claimed: usize,
    },
    Restore {
        place: usize,
    },
    /// Of a lane fewer tokens are valid, or all pages with such a remainder are forgotten.
    CutLane {
        lane: u32,
        valid: u32,
    },
    ForgetPages {
        remainder: u32,
    },
    Distrust {
        taker: u64,
    },
}

fn history() -> impl Strategy<Value = (u32, Vec<Op>)> {
    let place = 0_usize..64;
    let op = prop_oneof![
        6 => prop::option::weighted(0.3, place.clone()).prop_map(|superseded| Op::Claim { superseded }),
        6 => (0_usize..8, place.clone(), 0..TAKERS).prop_map(|(claimed, place, taker)| Op::Keep { claimed, place, taker }),
        1 => (0_usize..8).prop_map(|claimed| Op::Release { claimed }),
        1 => (0_usize..8).prop_map(|claimed| Op::Withdraw { claimed }),
        4 => place.prop_map(|place| Op::Restore { place }),
        1 => (0..LANES, 0..POSITIONS).prop_map(|(lane, valid)| Op::CutLane { lane, valid }),
        1 => (0_u32..3).prop_map(|remainder| Op::ForgetPages { remainder }),
        1 => (0..TAKERS).prop_map(|taker| Op::Distrust { taker }),
    ];
    (0_u32..6, prop::collection::vec(op, 1..60))
}

/// All places: the full pages of a sequence, and positions of lanes.
fn places() -> Vec<CheckpointPlace> {
    let mut book = PageBook::new(PagePool { pages: 8, positions: 1 });
    let mut holding = book.open(&[0; 8], 8, &|_| true).expect("there are pages");
    let pages = (0..8).map(|position| {
        book.push(&mut holding, position, position);
        CheckpointPlace::Page(holding.end().expect("a page of one position is full"))
    });
    let lanes =
        (0..LANES).flat_map(|lane| (1..=POSITIONS).map(move |position| CheckpointPlace::Lane { lane, position }));
    pages.chain(lanes).collect()
}

/// A checkpoint of the naive book.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Kept {
    slot: u32,
    place: CheckpointPlace,
    taker: u64,
}

fn hold((slots, ops): (u32, Vec<Op>)) -> Result<(), TestCaseError> {
    let places = places();
    let mut book = CheckpointBook::new(slots);
    // The one that was used last comes last.
    let (mut kept, mut claimed): (Vec<Kept>, Vec<u32>) = (Vec::new(), Vec::new());
    // How many slots there are that can be used, those that were withdrawn, and how many were claimed ever.
    let (mut usable, mut withdrawn, mut ever) = (slots as usize, Vec::new(), 0);
    for op in ops {
        match op {
            Op::Claim { superseded } => {
                let superseded = superseded.map(|place| places[place % places.len()]);
                let slot = book.claim(superseded);
                if let Some(at) = kept.iter().position(|own| Some(own.place) == superseded) {
                    prop_assert_eq!(slot, Some(kept.remove(at).slot));
                    claimed.extend(slot);
                    continue;
                }
                let free = (kept.len() + claimed.len()) < usable;
                match slot {
                    None => prop_assert_eq!(claimed.len(), usable),
                    Some(slot) if free => prop_assert!(kept.iter().all(|own| own.slot != slot)),
                    Some(slot) => prop_assert_eq!(kept.remove(0).slot, slot),
                }
                prop_assert!(
                    slot.is_none_or(|slot| slot < slots && ![&claimed[..], &withdrawn].concat().contains(&slot))
                );
                claimed.extend(slot);
                ever = ever.max(slot.map_or(0, |slot| slot as usize + 1));
            }
            Op::Keep { claimed: which, place, taker } if !claimed.is_empty() => {
                let (slot, place) = (claimed.remove(which % claimed.len()), places[place % places.len()]);
                let earlier = kept.iter().position(|own| own.place == place).map(|at| kept.remove(at));
                prop_assert_eq!(book.keep(slot, place, taker), earlier.is_none());
                kept.push(earlier.unwrap_or(Kept { slot, place, taker }));
            }
            Op::Release { claimed: which } if !claimed.is_empty() => {
                book.release(claimed.remove(which % claimed.len()));
            }
            Op::Withdraw { claimed: which } if !claimed.is_empty() => {
                let slot = claimed.remove(which % claimed.len());
                book.withdraw(slot);
                withdrawn.push(slot);
                usable = ever - withdrawn.len();
            }
            Op::Restore { place } if !kept.is_empty() => {
                let own = kept.remove(place % kept.len());
                prop_assert_eq!(book.find(own.place), Some(own.slot));
                book.restored(own.slot);
                kept.push(own);
            }
            Op::CutLane { lane, valid } => {
                let is_of_use = |place| match place {
                    CheckpointPlace::Lane { lane: own, position } => own != lane || position <= valid,
                    CheckpointPlace::Page(_) => true,
                };
                book.retain(is_of_use);
                kept.retain(|own| is_of_use(own.place));
            }
            Op::ForgetPages { remainder } => {
                let is_of_use = |place| match place {
                    CheckpointPlace::Page(content) => content.page() % 3 != remainder,
                    CheckpointPlace::Lane { .. } => true,
                };
                book.retain(is_of_use);
                kept.retain(|own| is_of_use(own.place));
            }
            Op::Distrust { taker } => {
                book.distrust(taker);
                kept.retain(|own| own.taker != taker);
            }
            Op::Keep { .. } | Op::Release { .. } | Op::Withdraw { .. } | Op::Restore { .. } => {}
        }
        for place in &places {
            let own = kept.iter().find(|own| own.place == *place);
            prop_assert_eq!(book.find(*place), own.map(|own| own.slot));
        }
        for lane in 0..LANES {
            for most in 0..=POSITIONS {
                let at = |position| kept.iter().find(|own| own.place == CheckpointPlace::Lane { lane, position });
                let last = (1..=most).rev().find_map(|position| Some((position, at(position)?.slot)));
                prop_assert_eq!(book.last_in_lane(lane, most), last);
            }
        }
    }
    Ok(())
}

#[test]
fn the_book_is_a_list_in_the_order_of_use() {
    let times = if matrix::is_full() { WHOLE } else { 1 };
    let asked_for = std::env::var("PROPTEST_CASES").ok();
    let cases = asked_for.map_or(times * HISTORIES, |cases| cases.parse().expect("a number"));
    let histories = cases::hold_all(cases, history, |_| 1, hold);
    assert!(histories >= u64::from(cases), "{histories} histories");
}

/// A book takes no more memory than the slots that were claimed need, however many the user allows.
#[test]
fn a_book_may_have_any_number_of_slots() {
    let mut book = CheckpointBook::new(u32::MAX);
    assert_eq!([(); 3].map(|()| book.claim(None)), [Some(0), Some(1), Some(2)]);
    book.release(1);
    assert_eq!([(); 2].map(|()| book.claim(None)), [Some(1), Some(3)]);
    assert_eq!(CheckpointBook::new(0).claim(None), None);
}

/// A checkpoint that is kept for good makes no room for others, however long ago it was restored, and goes when it is of no use.
#[test]
fn a_checkpoint_that_is_kept_for_good_stays() {
    let place = |position| CheckpointPlace::Lane { lane: 0, position };
    let mut book = CheckpointBook::new(2);
    assert_eq!(book.claim(None), Some(0));
    book.keep_for_good(0, place(8));
    for position in 9..12 {
        book.restored(0);
        assert_eq!([(); 2].map(|()| book.claim(None)), [Some(1), None]);
        book.keep(1, place(position), 0);
        assert_eq!(book.find(place(8)), Some(0));
    }
    book.retain(|own| own != place(8));
    assert_eq!(book.claim(None), Some(0));
}
