//! The tree of a session: every entry has a parent, one entry is the leaf, and the path from the
//! root to the leaf is the conversation.
//!
//! The tree holds no text. A node stores the offset of its line, the kind of entry and its links to
//! others, in some sixty bytes; the content is read from the line. That keeps a session of a
//! hundred thousand entries at a few megabytes.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::head::{Head, Kind};
use crate::stats::Stats;

/// An entry's number in file order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Index(NonZeroU32);

impl Index {
    fn of(position: usize) -> Index {
        let number = u32::try_from(position + 1).ok().and_then(NonZeroU32::new);
        Index(number.expect("Tree::is_full keeps the count below four billion"))
    }

    pub(crate) fn position(self) -> usize {
        self.0.get() as usize - 1
    }
}

struct Node {
    /// The range of the line, without its line end.
    offset: u64,
    len: u32,
    /// The offset of the id in `Tree::ids`.
    id_at: u32,
    id_len: u16,
    kind: Kind,
    replaces: bool,
    parent: Option<Index>,
    /// The entry it refers to: see [`Head::refers`].
    refers: Option<Index>,
    /// The newest child; the others follow by `older_sibling`.
    newest_child: Option<Index>,
    older_sibling: Option<Index>,
}

pub(crate) struct Tree {
    nodes: Vec<Node>,
    /// All ids, concatenated.
    ids: String,
    by_id: HashTable<Index>,
    hasher: DefaultHashBuilder,
    leaf: Option<Index>,
    newest_root: Option<Index>,
    labels: HashMap<Index, Label>,
    name: Option<String>,
    stats: Stats,
}

pub(crate) struct Label {
    pub text: String,
    /// The entry that set it.
    pub entry: Index,
}

/// What was unusual about a new entry.
pub(crate) struct Pushed {
    pub index: Index,
    /// Its parent does not exist; it became a root.
    pub orphan: bool,
    /// Another entry has the same id.
    pub duplicate: bool,
}

impl Tree {
    pub(crate) fn new() -> Tree {
        Tree {
            nodes: Vec::new(),
            ids: String::new(),
            by_id: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            leaf: None,
            newest_root: None,
            labels: HashMap::new(),
            name: None,
            stats: Stats::default(),
        }
    }

    /// Reserves memory for this many entries, up to a limit. Unused memory costs next to nothing.
    pub(crate) fn with_room_for(entries: u64) -> Tree {
        let entries = entries.min(250_000) as usize;
        let mut tree = Tree::new();
        tree.nodes.reserve(entries);
        tree.by_id.reserve(entries, |_| 0);
        tree
    }

    /// Adds an entry below its parent and makes it the leaf.
    ///
    /// The parent is searched only among earlier entries. Every program writes it before its
    /// children, and so no file, however broken, can create a cycle.
    pub(crate) fn push(&mut self, head: &Head<'_>, at: Range<u64>) -> Pushed {
        let parent = head.parent.as_deref().and_then(|id| self.find_near(id));
        let index = Index::of(self.nodes.len());
        let refers = match head.refers.as_deref() {
            Some(id) if id == head.id => Some(index),
            Some(id) => self.find(id),
            None => None,
        };
        let siblings = match parent {
            Some(parent) => &mut self.nodes[parent.position()].newest_child,
            None => &mut self.newest_root,
        };
        let older_sibling = siblings.replace(index);
        let id_at = u32::try_from(self.ids.len()).expect("Tree::is_full was checked");
        self.ids.push_str(&head.id);
        self.nodes.push(Node {
            offset: at.start,
            len: u32::try_from(at.end - at.start).expect("Tree::is_full was checked"),
            id_at,
            id_len: u16::try_from(head.id.len()).expect("Tree::is_full was checked"),
            kind: head.kind,
            replaces: head.replaces,
            parent,
            refers,
            newest_child: None,
            older_sibling,
        });
        let duplicate = self.register(index);
        self.leaf = Some(index);
        self.stats.count(head);
        self.note(index, head, refers);
        Pushed { index, orphan: parent.is_none() && head.parent.is_some(), duplicate }
    }

    /// Whether an entry exceeds the narrow fields of a node: four billion entries, a line of four
    /// gigabytes, an id of 64 kilobytes.
    pub(crate) fn is_full(&self, head_id: &str, len: u64) -> bool {
        self.nodes.len() >= u32::MAX as usize - 1
            || self.ids.len() + head_id.len() > u32::MAX as usize
            || len > u64::from(u32::MAX)
            || head_id.len() > usize::from(u16::MAX)
    }

    /// Registers the id. If two entries have the same id, the later one wins.
    fn register(&mut self, index: Index) -> bool {
        let Tree { by_id, nodes, ids, hasher, .. } = self;
        let id_of = |index: &Index| id_in(nodes, ids, *index);
        let hash = hasher.hash_one(id_of(&index));
        match by_id.find_mut(hash, |other| id_of(other) == id_of(&index)) {
            Some(other) => {
                *other = index;
                true
            }
            None => {
                by_id.insert_unique(hash, index, |other| hasher.hash_one(id_of(other)));
                false
            }
        }
    }

    fn note(&mut self, index: Index, head: &Head<'_>, refers: Option<Index>) {
        let text = head.text.as_deref().filter(|text| !text.is_empty());
        match (head.kind, refers) {
            (Kind::Label, Some(target)) => match text {
                Some(text) => {
                    self.labels.insert(target, Label { text: text.to_owned(), entry: index });
                }
                None => {
                    self.labels.remove(&target);
                }
            },
            (Kind::SessionInfo, _) => self.name = text.map(str::to_owned),
            _ => (),
        }
    }

    pub(crate) fn find(&self, id: &str) -> Option<Index> {
        let hash = self.hasher.hash_one(id);
        self.by_id.find(hash, |&index| self.id(index) == id).copied()
    }

    /// Like `find`, for an id that most likely is the leaf's.
    fn find_near(&self, id: &str) -> Option<Index> {
        let leaf = self.leaf.filter(|&leaf| self.id(leaf) == id);
        leaf.or_else(|| self.find(id))
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn id(&self, index: Index) -> &str {
        id_in(&self.nodes, &self.ids, index)
    }

    pub(crate) fn kind(&self, index: Index) -> Kind {
        self.nodes[index.position()].kind
    }

    /// The range of the entry's line, without its line end.
    pub(crate) fn at(&self, index: Index) -> Range<u64> {
        let node = &self.nodes[index.position()];
        node.offset..node.offset + u64::from(node.len)
    }

    pub(crate) fn parent(&self, index: Index) -> Option<Index> {
        self.nodes[index.position()].parent
    }

    pub(crate) fn refers(&self, index: Index) -> Option<Index> {
        self.nodes[index.position()].refers
    }

    pub(crate) fn replaces(&self, index: Index) -> bool {
        self.nodes[index.position()].replaces
    }

    pub(crate) fn leaf(&self) -> Option<Index> {
        self.leaf
    }

    pub(crate) fn set_leaf(&mut self, leaf: Option<Index>) {
        self.leaf = leaf;
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn set_name(&mut self, name: Option<String>) {
        self.name = name;
    }

    pub(crate) fn label(&self, index: Index) -> Option<&Label> {
        self.labels.get(&index)
    }

    /// All labels, in the order they were set.
    pub(crate) fn labels(&self) -> Vec<(Index, &Label)> {
        let mut labels: Vec<_> =
            self.labels.iter().map(|(&target, label)| (target, label)).collect();
        labels.sort_unstable_by_key(|(_, label)| label.entry);
        labels
    }

    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// All entries, in file order.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = Index> + Clone + use<> {
        (0..self.nodes.len()).map(Index::of)
    }

    /// The entries after this one, in file order.
    pub(crate) fn after(
        &self,
        index: Index,
    ) -> impl DoubleEndedIterator<Item = Index> + Clone + use<> {
        (index.position() + 1..self.nodes.len()).map(Index::of)
    }

    /// From the entry up to its root, both included.
    pub(crate) fn ancestors(&self, from: Option<Index>) -> impl Iterator<Item = Index> {
        std::iter::successors(from, |&index| self.parent(index))
    }

    /// From the root down to the entry.
    pub(crate) fn path(&self, to: Option<Index>) -> Vec<Index> {
        let mut path: Vec<Index> = self.ancestors(to).collect();
        path.reverse();
        path
    }

    /// The children of an entry, or the roots, oldest first.
    pub(crate) fn children(&self, of: Option<Index>) -> Vec<Index> {
        let newest = match of {
            Some(parent) => self.nodes[parent.position()].newest_child,
            None => self.newest_root,
        };
        let newest_first =
            std::iter::successors(newest, |&index| self.nodes[index.position()].older_sibling);
        let mut children: Vec<Index> = newest_first.collect();
        children.reverse();
        children
    }
}

fn id_in<'a>(nodes: &[Node], ids: &'a str, index: Index) -> &'a str {
    let node = &nodes[index.position()];
    let at = node.id_at as usize;
    &ids[at..at + usize::from(node.id_len)]
}
