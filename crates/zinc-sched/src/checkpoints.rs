//! The book of checkpoints: which slot of the model holds a copy of a recurrent state, and behind which tokens it was taken. This is bookkeeping only; the model
//! owns the copies, and nothing here touches them.
//!
//! A recurrent state cannot be cut back, as keys and values (K/V) can. So a sequence has the beginning of its prompt in common with an earlier one only up to a
//! checkpoint, whose copy becomes the state of its lane. A checkpoint is of use as long as the K/V of the same tokens are valid.

use crate::pages::PageContent;

/// Behind which tokens a checkpoint was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CheckpointPlace {
    /// Those up to the end of a page that is known. The checkpoint is of no use once the page is forgotten.
    Page(PageContent),
    /// The leading tokens of a lane that has a part of the cache for itself. The checkpoint is of no use once fewer of them are valid.
    Lane {
        /// The lane.
        lane: u32,
        /// How many tokens.
        position: u32,
    },
}

/// The time of use of a checkpoint whose slot no other gets.
const FOR_GOOD: u64 = u64::MAX;

/// What a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// Nothing of use.
    Free,
    /// A copy that was asked for. Whether it is of use is not known yet.
    Claimed,
    /// No memory, so that nobody can claim it.
    Withdrawn,
    /// A checkpoint.
    Kept {
        place: CheckpointPlace,
        /// Who has taken it.
        taker: u64,
        /// When it was taken or restored last, by [`CheckpointBook::clock`]; [`FOR_GOOD`] if it makes no room for others.
        used_at: u64,
    },
}

/// The book of the checkpoints of a model.
///
/// A slot is claimed when the model is asked for a copy, and holds a checkpoint from when it is known that the copy is that of the place which was expected. If no slot
/// is free, the checkpoint goes that was taken or restored longest ago, wherever it stands: of the checkpoints of a conversation the last one is needed next, and those
/// before it are of use without it and it without them.
#[derive(Debug)]
pub struct CheckpointBook {
    /// Those that were claimed so far, so that what the book takes does not depend on how many there may be.
    slots: Vec<Slot>,
    /// How many slots the model has.
    most: u32,
    /// How many times a checkpoint was taken or restored so far.
    clock: u64,
}

impl CheckpointBook {
    /// A book of so many slots, none of which holds a checkpoint.
    pub fn new(slots: u32) -> Self {
        Self { slots: Vec::new(), most: slots, clock: 0 }
    }

    /// The slot with the checkpoint at a place.
    pub fn find(&self, place: CheckpointPlace) -> Option<u32> {
        self.kept().find(|(_, own)| *own == place).map(|(slot, _)| slot)
    }

    /// The last checkpoint of a lane that is behind at most so many tokens: behind how many, and its slot.
    pub fn last_in_lane(&self, lane: u32, most: u32) -> Option<(u32, u32)> {
        let in_lane = self.kept().filter_map(|(slot, place)| match place {
            CheckpointPlace::Lane { lane: own, position } if own == lane && position <= most => Some((position, slot)),
            CheckpointPlace::Lane { .. } | CheckpointPlace::Page(_) => None,
        });
        in_lane.max()
    }

    fn kept(&self) -> impl Iterator<Item = (u32, CheckpointPlace)> {
        (0..).zip(&self.slots).filter_map(|(slot, own)| match own {
            Slot::Kept { place, .. } => Some((slot, *place)),
            Slot::Free | Slot::Claimed | Slot::Withdrawn => None,
        })
    }

    /// Notes that the checkpoint in a slot is restored.
    ///
    /// # Panics
    /// If there is none.
    pub fn restored(&mut self, slot: u32) {
        self.clock += 1;
        match &mut self.slots[slot as usize] {
            Slot::Kept { used_at, .. } => *used_at = self.clock.max(*used_at),
            other => panic!("slot {slot} is restored, which holds {other:?}"),
        }
    }

    /// A slot for another checkpoint: that of the one at `superseded`, if there is one; else a free one, or that of the checkpoint which was taken or restored longest ago.
    /// What it held is forgotten. `None` if all slots are claimed, withdrawn or kept for good.
    pub fn claim(&mut self, superseded: Option<CheckpointPlace>) -> Option<u32> {
        if let Some(slot) = superseded.and_then(|place| self.find(place)) {
            self.slots[slot as usize] = Slot::Claimed;
            return Some(slot);
        }
        let age = |own: &Slot| match own {
            Slot::Free => Some(0),
            Slot::Kept { used_at: FOR_GOOD, .. } | Slot::Claimed | Slot::Withdrawn => None,
            Slot::Kept { used_at, .. } => Some(*used_at),
        };
        let oldest = (0..).zip(&self.slots).filter_map(|(slot, own)| Some((age(own)?, slot))).min();
        // The clock is at least 1 where a checkpoint was taken, so that age 0 is that of a free slot.
        let claimed_before = self.slots.len() as u32;
        if claimed_before < self.most && oldest.is_none_or(|(age, _)| age > 0) {
            self.slots.push(Slot::Claimed);
            return Some(claimed_before);
        }
        let (_, slot) = oldest?;
        self.slots[slot as usize] = Slot::Claimed;
        Some(slot)
    }

    /// Notes that the copy in a claimed slot is the checkpoint at a place, which `taker` has taken. Returns whether it is kept: the slot is free again if there is one at
    /// the place already, which counts as taken anew.
    ///
    /// # Panics
    /// If the slot is not claimed.
    pub fn keep(&mut self, slot: u32, place: CheckpointPlace, taker: u64) -> bool {
        self.release(slot);
        if let Some(other) = self.find(place) {
            self.restored(other);
            return false;
        }
        self.clock += 1;
        self.slots[slot as usize] = Slot::Kept { place, taker, used_at: self.clock };
        true
    }

    /// Notes that a claimed slot has the checkpoint at a place, and makes no room for others as long as it is of use.
    ///
    /// # Panics
    /// If the slot is not claimed.
    pub fn keep_for_good(&mut self, slot: u32, place: CheckpointPlace) {
        self.release(slot);
        self.slots[slot as usize] = Slot::Kept { place, taker: u64::MAX, used_at: FOR_GOOD };
    }

    /// Notes that the copy in a claimed slot is of no use.
    ///
    /// # Panics
    /// If the slot is not claimed.
    pub fn release(&mut self, slot: u32) {
        let own = &mut self.slots[slot as usize];
        assert_eq!(*own, Slot::Claimed, "slot {slot} is given back");
        *own = Slot::Free;
    }

    /// Notes that the model has no memory for a claimed slot. It is not claimed again, and neither is any that was not claimed so far.
    ///
    /// # Panics
    /// If the slot is not claimed.
    pub fn withdraw(&mut self, slot: u32) {
        self.release(slot);
        self.slots[slot as usize] = Slot::Withdrawn;
        // Slots are first claimed in order, so that those behind have no memory yet.
        self.most = self.slots.len() as u32;
    }

    /// Forgets the checkpoints that are not at such places.
    pub fn retain(&mut self, is_of_use: impl Fn(CheckpointPlace) -> bool) {
        self.forget(|place, _| !is_of_use(place));
    }

    /// Forgets the checkpoints that `taker` has taken, because its state may have been broken.
    pub fn distrust(&mut self, taker: u64) {
        self.forget(|_, own| own == taker);
    }

    fn forget(&mut self, goes: impl Fn(CheckpointPlace, u64) -> bool) {
        for own in &mut self.slots {
            if matches!(own, Slot::Kept { place, taker, .. } if goes(*place, *taker)) {
                *own = Slot::Free;
            }
        }
    }
}
