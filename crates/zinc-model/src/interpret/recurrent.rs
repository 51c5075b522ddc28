//! The recurrent states of a layer, as the interpreter keeps them: several, so that it can go back to the one before a draft that was not accepted.

use std::collections::VecDeque;

use zinc_kernels::ops::DeltaHeads;

/// The state of a delta net behind some positions.
#[derive(Clone, Debug)]
pub(super) struct RecurrentState {
    /// The last three inputs of the convolution, `[channels]` each, the latest last. Those before the first position are zeros.
    pub(super) columns: [Vec<f32>; 3],
    /// `[value_heads, head_size values, head_size keys]`.
    pub(super) memories: Vec<f32>,
}

/// The latest states of a layer.
#[derive(Clone, Debug)]
pub(super) struct RecurrentStates {
    /// Each with the position that comes next, in order.
    states: VecDeque<(u32, RecurrentState)>,
    /// How many are kept: a step with this many rows but one that are not accepted goes back to the first of them.
    most: usize,
}

impl RecurrentStates {
    /// No states yet, of a layer that takes at most so many drafts of a lane in a step.
    pub(super) fn new(drafts: u32) -> Self {
        Self { states: VecDeque::new(), most: 1 + drafts as usize }
    }

    /// The state before a position, which is empty before position 0; `None` if it is not among those that are kept.
    pub(super) fn before(&self, position: u32, heads: &DeltaHeads) -> Option<RecurrentState> {
        if position == 0 {
            let columns = std::array::from_fn(|_| vec![0.0; heads.channels() as usize]);
            let memories = vec![0.0; (heads.values() * heads.head_size) as usize];
            return Some(RecurrentState { columns, memories });
        }
        self.states.iter().find(|(next, _)| *next == position).map(|(_, state)| state.clone())
    }

    /// Keeps the state before `next`. What was kept of that position and later ones is no more part of the sequence.
    pub(super) fn put(&mut self, next: u32, state: RecurrentState) {
        self.states.retain(|(other, _)| *other < next);
        if self.states.len() == self.most {
            self.states.pop_front();
        }
        self.states.push_back((next, state));
    }
}

#[cfg(test)]
mod tests {
    use zinc_kernels::ops::HeadOrder;

    use super::*;

    const HEADS: DeltaHeads = DeltaHeads { key_heads: 1, value_heads: 1, head_size: 1, order: HeadOrder::Tiled };

    fn state(number: f32) -> RecurrentState {
        RecurrentState { columns: std::array::from_fn(|_| vec![number; 3]), memories: vec![number] }
    }

    /// The memories of the states before positions 0 to 6.
    fn found(states: &RecurrentStates) -> [Option<f32>; 7] {
        std::array::from_fn(|position| states.before(position as u32, &HEADS).map(|state| state.memories[0]))
    }

    #[test]
    fn drafts_can_be_taken_back() {
        let mut states = RecurrentStates::new(2);
        assert_eq!(found(&states), [Some(0.0), None, None, None, None, None, None]);
        for next in 1..=4u8 {
            states.put(next.into(), state(f32::from(next)));
        }
        assert_eq!(found(&states), [Some(0.0), None, Some(2.0), Some(3.0), Some(4.0), None, None]);
        // The rows behind position 2 were drafts.
        states.put(3, state(30.0));
        assert_eq!(found(&states), [Some(0.0), None, Some(2.0), Some(30.0), None, None, None]);
        // A new sequence.
        states.put(1, state(10.0));
        assert_eq!(found(&states), [Some(0.0), Some(10.0), None, None, None, None, None]);
    }
}
