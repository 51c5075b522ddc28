//! The requests that wait for a lane, and which of them is next. Nothing here touches a model, a clock or a channel.

use std::cmp::Reverse;

/// Waiting requests, in the order in which they came.
///
/// The next one is of an owner who has the fewest lanes of all owners who wait. So nobody gets more than half of the lanes, rounded up, while another owner
/// waits who has fewer; and a lane stays free only if nobody waits. Of the requests of owners with equally many lanes the most urgent one is next.
#[derive(Debug)]
pub struct WaitingQueue<T>(Vec<Waiting<T>>);

#[derive(Debug)]
struct Waiting<T> {
    owner: u64,
    priority: i32,
    /// How many that came later have been taken before it.
    overtaken: u32,
    request: T,
}

impl<T> Waiting<T> {
    /// Each request that overtakes this one counts as a step of priority, so that at most as many do as the two priorities differ.
    fn urgency(&self) -> i64 {
        i64::from(self.priority) + i64::from(self.overtaken)
    }
}

impl<T> WaitingQueue<T> {
    /// A queue in which nobody waits.
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a request of this owner.
    pub fn push(&mut self, owner: u64, priority: i32, request: T) {
        self.0.push(Waiting { owner, priority, overtaken: 0, request });
    }

    /// The place of the request that is next: of the owners with the fewest lanes the most urgent one, and of equals the one that came first.
    fn next(&self, lanes_of: impl Fn(u64) -> usize) -> Option<usize> {
        let places = self.0.iter().enumerate();
        let first = places.max_by_key(|(place, of)| (Reverse(lanes_of(of.owner)), of.urgency(), Reverse(*place)));
        first.map(|(place, _)| place)
    }

    /// The request that is next; `lanes_of` says how many lanes an owner has.
    pub fn peek(&self, lanes_of: impl Fn(u64) -> usize) -> Option<&T> {
        self.next(lanes_of).map(|place| &self.0[place].request)
    }

    /// Takes the request that is next; `lanes_of` says how many lanes an owner has.
    pub fn take(&mut self, lanes_of: impl Fn(u64) -> usize) -> Option<T> {
        let place = self.next(lanes_of)?;
        for earlier in &mut self.0[..place] {
            earlier.overtaken = earlier.overtaken.saturating_add(1);
        }
        Some(self.0.remove(place).request)
    }

    /// Takes out those that `leaves` says, in the order in which they came.
    pub fn take_those(&mut self, leaves: impl Fn(&T) -> bool) -> Vec<T> {
        self.0.extract_if(.., |of| leaves(&of.request)).map(|of| of.request).collect()
    }

    /// The waiting requests, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|of| &of.request)
    }
}

impl<T> Default for WaitingQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn nobody_has_a_lane(_owner: u64) -> usize {
        0
    }

    fn drain(queue: &mut WaitingQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| {
            let next = queue.peek(nobody_has_a_lane).copied();
            assert_eq!(queue.take(nobody_has_a_lane), next);
            next
        })
        .collect()
    }

    #[test]
    fn the_highest_priority_is_first_and_of_equals_the_earliest() {
        let mut queue = WaitingQueue::new();
        for (request, priority) in [(0, 0), (1, 5), (2, -3), (3, 5), (4, 0)] {
            queue.push(0, priority, request);
        }
        // The last is overtaken by one that came later than it, and by none once it is as urgent.
        assert_eq!(drain(&mut queue), [1, 3, 0, 4, 2]);
        assert!(queue.is_empty() && queue.take(nobody_has_a_lane).is_none());
    }

    #[test]
    fn those_that_leave_do_not_count_as_overtaking() {
        let mut queue = WaitingQueue::new();
        (0..4).for_each(|request| queue.push(0, 0, request));
        assert_eq!(queue.take_those(|request| request % 2 == 1), [1, 3]);
        queue.push(0, 1, 4);
        assert_eq!(queue.iter().copied().collect::<Vec<_>>(), [0, 2, 4]);
        assert_eq!(drain(&mut queue), [4, 0, 2]);
    }

    /// Beside an endless row of urgent requests, one waits for as many as its priority is lower, and of all priorities there are.
    #[test]
    fn nobody_is_overtaken_more_often_than_priorities_differ() {
        for difference in [0, 1, 7, 100] {
            let mut queue = WaitingQueue::new();
            queue.push(0, -difference, u32::MAX);
            let mut overtaken = 0;
            loop {
                queue.push(0, 0, 0);
                if queue.take(nobody_has_a_lane) == Some(u32::MAX) {
                    break;
                }
                overtaken += 1;
            }
            assert_eq!(overtaken, difference);
        }
        let mut queue = WaitingQueue::new();
        queue.push(0, i32::MIN, 0);
        queue.push(0, i32::MAX, 1);
        assert_eq!(drain(&mut queue), [1, 0]);
    }

    #[test]
    fn the_owner_with_the_fewest_lanes_is_next_whatever_the_urgency() {
        let mut queue = WaitingQueue::new();
        for (owner, priority) in [(1, 9), (1, 0), (2, 0), (3, -5), (2, 3)] {
            queue.push(owner, priority, (owner, priority));
        }
        let lanes_of = |owner| [0, 2, 1, 0][owner as usize];
        assert_eq!(queue.take(lanes_of), Some((3, -5)));
        assert_eq!(queue.take(lanes_of), Some((2, 3)));
        assert_eq!(queue.take(lanes_of), Some((2, 0)));
        // Nobody else waits, so that a free lane goes to the one who has most.
        assert_eq!(queue.take(lanes_of), Some((1, 9)));
        assert_eq!(queue.take(lanes_of), Some((1, 0)));
    }

    proptest! {
        /// Owners come and go at random: whoever gets a lane has at most half of them then, rounded up, if another owner waits who has no more than it had.
        #[test]
        fn nobody_gets_more_than_half_of_the_lanes_while_others_wait(
            lanes in 1_usize..9,
            events in prop::collection::vec((any::<bool>(), 0_u64..4, -3_i32..4, any::<prop::sample::Index>()), 1..200),
        ) {
            let mut queue = WaitingQueue::new();
            let mut running: Vec<u64> = Vec::new();
            let mut handed_out = HashMap::<u64, usize>::new();
            let mut waited = HashMap::<u64, usize>::new();
            for (comes, owner, priority, which) in events {
                if comes {
                    queue.push(owner, priority, owner);
                    *waited.entry(owner).or_default() += 1;
                } else if !running.is_empty() {
                    running.swap_remove(which.index(running.len()));
                }
                while running.len() < lanes && !queue.is_empty() {
                    let lanes_of = |owner| running.iter().filter(|own| **own == owner).count();
                    let taken = queue.take(lanes_of).expect("someone waits");
                    let others_wait = queue.iter().any(|other| *other != taken);
                    if others_wait {
                        let after = lanes_of(taken) + 1;
                        prop_assert!(after <= lanes.div_ceil(2), "{taken} has {after} of {lanes} lanes while others wait");
                    }
                    running.push(taken);
                    *handed_out.entry(taken).or_default() += 1;
                }
                prop_assert!(running.len() == lanes || queue.is_empty(), "a lane is free while someone waits");
            }
            running.clear();
            while let Some(taken) = queue.take(nobody_has_a_lane) {
                *handed_out.entry(taken).or_default() += 1;
            }
            prop_assert_eq!(handed_out, waited);
        }
    }
}
