//! Which sequences have room in a cache of pages: for how many positions one gets pages when it begins, and which one gives its own back when others
//! need more. Pure functions of counts.

/// The default of [`EngineOptions::reserve_tokens`](crate::EngineOptions::reserve_tokens).
pub(crate) const RESERVE_TOKENS: u32 = 256;

/// For how many positions a sequence gets pages when it begins: for the tokens that it has, and for as many of those that it may still sample as are held in
/// reserve. The last token that is sampled has no position of its own.
pub(crate) fn positions_at_beginning(tokens: u32, left: u32, reserve: u32) -> u32 {
    tokens + left.min(reserve).saturating_sub(1)
}

/// What is known of a sequence when pages are short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageHolder {
    /// How many sequences had begun before it.
    pub(crate) age: u64,
    /// Whether it gives its pages back as soon as its steps in flight are done.
    pub(crate) leaves: bool,
}

/// The sequence that is to give its pages back, of those that have any, if one of them needs a page and there is none: the youngest. `None` while others
/// give theirs back anyway.
pub(crate) fn to_pause(holders: &[PageHolder]) -> Option<usize> {
    if holders.iter().any(|holder| holder.leaves) {
        return None;
    }
    holders.iter().enumerate().max_by_key(|(_, holder)| holder.age).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_begins_with_pages_for_its_prompt_and_the_reserve() {
        for (tokens, left, reserve, positions) in [
            (10, 1, 256, 10),
            (10, 5, 256, 14),
            (10, 256, 256, 265),
            (10, 4_000, 256, 265),
            (10, 9, 0, 10),
            (1, 1, 1, 1),
        ] {
            assert_eq!(positions_at_beginning(tokens, left, reserve), positions, "{tokens}, {left}, {reserve}");
        }
    }

    #[test]
    fn the_youngest_gives_its_pages_back_unless_someone_does_anyway() {
        let holder = |age| PageHolder { age, leaves: false };
        assert_eq!(to_pause(&[]), None);
        assert_eq!(to_pause(&[holder(3), holder(9), holder(5)]), Some(1));
        assert_eq!(to_pause(&[holder(3), holder(9), PageHolder { leaves: true, ..holder(1) }]), None);
    }
}
