//! The requests that wait for a lane, and which of them is next. Nothing here touches a model, a clock or a channel.

/// Waiting requests, in the order in which they came.
#[derive(Debug)]
pub(crate) struct WaitingQueue<T>(Vec<Waiting<T>>);

#[derive(Debug)]
struct Waiting<T> {
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
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&mut self, priority: i32, request: T) {
        self.0.push(Waiting { priority, overtaken: 0, request });
    }

    /// The place of the request that is next: the most urgent one, and of equals the one that came first.
    fn next(&self) -> Option<usize> {
        let most_urgent = self.0.iter().enumerate().max_by_key(|(place, of)| (of.urgency(), std::cmp::Reverse(*place)));
        most_urgent.map(|(place, _)| place)
    }

    /// The request that is next.
    pub(crate) fn peek(&self) -> Option<&T> {
        self.next().map(|place| &self.0[place].request)
    }

    /// Takes the request that is next.
    pub(crate) fn take(&mut self) -> Option<T> {
        let place = self.next()?;
        for earlier in &mut self.0[..place] {
            earlier.overtaken = earlier.overtaken.saturating_add(1);
        }
        Some(self.0.remove(place).request)
    }

    /// Takes out those that `leaves` says, in the order in which they came.
    pub(crate) fn take_those(&mut self, leaves: impl Fn(&T) -> bool) -> Vec<T> {
        self.0.extract_if(.., |of| leaves(&of.request)).map(|of| of.request).collect()
    }

    /// The waiting requests, in the order in which they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|of| &of.request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queue: &mut WaitingQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| {
            let next = queue.peek().copied();
            assert_eq!(queue.take(), next);
            next
        })
        .collect()
    }

    #[test]
    fn the_highest_priority_is_first_and_of_equals_the_earliest() {
        let mut queue = WaitingQueue::new();
        for (request, priority) in [(0, 0), (1, 5), (2, -3), (3, 5), (4, 0)] {
            queue.push(priority, request);
        }
        // The last is overtaken by one that came later than it, and by none once it is as urgent.
        assert_eq!(drain(&mut queue), [1, 3, 0, 4, 2]);
        assert!(queue.is_empty() && queue.take().is_none());
    }

    #[test]
    fn those_that_leave_do_not_count_as_overtaking() {
        let mut queue = WaitingQueue::new();
        (0..4).for_each(|request| queue.push(0, request));
        assert_eq!(queue.take_those(|request| request % 2 == 1), [1, 3]);
        queue.push(1, 4);
        assert_eq!(queue.iter().copied().collect::<Vec<_>>(), [0, 2, 4]);
        assert_eq!(drain(&mut queue), [4, 0, 2]);
    }

    /// Beside an endless row of urgent requests, one waits for as many as its priority is lower, and of all priorities there are.
    #[test]
    fn nobody_is_overtaken_more_often_than_priorities_differ() {
        for difference in [0, 1, 7, 100] {
            let mut queue = WaitingQueue::new();
            queue.push(-difference, u32::MAX);
            let mut overtaken = 0;
            loop {
                queue.push(0, 0);
                if queue.take() == Some(u32::MAX) {
                    break;
                }
                overtaken += 1;
            }
            assert_eq!(overtaken, difference);
        }
        let mut queue = WaitingQueue::new();
        queue.push(i32::MIN, 0);
        queue.push(i32::MAX, 1);
        assert_eq!(drain(&mut queue), [1, 0]);
    }
}
