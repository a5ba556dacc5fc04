//! Pages of long lists: which part of a list is written, and what follows it.

/// The part of a list that is wanted. It ends before the item that would make it too long, unless
/// that is its first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageRange {
    /// How many items come before it.
    pub offset: usize,
    /// The most items it has.
    pub limit: usize,
    /// The most bytes of JSON text it has.
    pub max_bytes: usize,
}

impl PageRange {
    /// The whole list.
    pub const ALL: PageRange = PageRange { offset: 0, limit: usize::MAX, max_bytes: usize::MAX };
}

/// What is known of a list after a page of it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Page {
    /// How many items the list has.
    pub total: usize,
    /// Where the next page begins. None: this was the last one.
    pub next: Option<usize>,
}

impl Page {
    /// The page before the item at `end`.
    pub fn before(end: usize, total: usize) -> Page {
        Page { total, next: (end < total).then_some(end) }
    }
}

/// Counts the bytes of a page.
#[derive(Debug)]
pub struct PageSpace {
    left: usize,
    is_empty: bool,
}

impl PageSpace {
    pub fn new(range: PageRange) -> PageSpace {
        PageSpace { left: range.max_bytes, is_empty: true }
    }

    /// Whether an item of this length, with a comma, is still on the page.
    pub fn take(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes.saturating_add(1));
        let fits = left.is_some() || self.is_empty;
        self.left = left.unwrap_or(0);
        self.is_empty = false;
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_ends_before_the_item_that_is_too_long() {
        for (max_bytes, items, expected) in [
            (10, &[4, 4, 4][..], 2),
            (9, &[4, 4, 4], 1),
            (3, &[4, 4], 1),
            (3, &[1, 4, 1], 1),
            (0, &[4, 0], 1),
            (usize::MAX, &[usize::MAX, 1], 1),
        ] {
            let mut space = PageSpace::new(PageRange { max_bytes, ..PageRange::ALL });
            let taken = items.iter().take_while(|bytes| space.take(**bytes)).count();
            assert_eq!(taken, expected, "{items:?} in {max_bytes} bytes");
        }
    }

    #[test]
    fn next_page_begins_where_this_one_ends() {
        assert_eq!(Page::before(2, 3), Page { total: 3, next: Some(2) });
        assert_eq!(Page::before(3, 3), Page { total: 3, next: None });
        assert_eq!(Page::before(9, 3), Page { total: 3, next: None });
    }
}
