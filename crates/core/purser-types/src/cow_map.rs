//! An ordered map that is cheap to clone: leaves are shared and copied when one side writes.
//!
//! A clone of a machine is how a snapshot is taken and how a read looks at a moment in peace, at any
//! size; so the maps of its state are these. A sorted list of leaves, each a sorted list of up to
//! [`LEAF_MAX`] pairs: a clone of n pairs costs about n/100 reference counts, a write into a shared
//! leaf copies that leaf alone. An empty map owns no memory, and one that is emptied here and there
//! joins its thin leaves, so that its memory follows the pairs it has and not those it had.

use std::ops::Bound;
use std::sync::Arc;

/// The most pairs in a leaf. Inserting moves half a leaf on average: 64 pairs of 40 bytes are one
/// page-sized copy, and the list of leaves stays a hundredth of the map.
const LEAF_MAX: usize = 128;

/// A leaf with fewer pairs is joined to a neighbor if both together fill no more than half a leaf.
/// So two neighbors always have more than half a leaf between them, and a map takes at most four
/// times the memory of full leaves.
const LEAF_THIN: usize = LEAF_MAX / 4;

type Leaf<K, V> = Arc<Vec<(K, V)>>;

/// An ordered map that is cheap to clone: leaves are shared and copied when one side writes.
#[derive(Debug, Clone)]
pub struct CowMap<K, V> {
    /// Each leaf with its first key. No leaf is empty.
    leaves: Vec<(K, Leaf<K, V>)>,
}

impl<K, V> Default for CowMap<K, V> {
    fn default() -> Self {
        Self { leaves: Vec::new() }
    }
}

/// Equal pairs, however they are laid out.
impl<K: Ord + Clone, V: Clone + PartialEq> PartialEq for CowMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: Ord + Clone, V: Clone> CowMap<K, V> {
    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// How many pairs there are. Walks the leaves.
    pub fn len(&self) -> usize {
        self.leaves.iter().map(|(_, leaf)| leaf.len()).sum()
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        let (_, leaf) = self.leaves.get(self.leaf_of(key))?;
        let place = leaf.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
        leaf.get(place).map(|(_, value)| value)
    }

    /// The value of a key, for changing. Copies the leaf if it is shared.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = self.leaf_of(key);
        let (_, leaf) = self.leaves.get_mut(at)?;
        let place = leaf.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
        Arc::make_mut(leaf).get_mut(place).map(|(_, value)| value)
    }

    /// Sets the value of a key and returns the value it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let mut at = self.leaf_of(&key);
        let Some((_, leaf)) = self.leaves.get_mut(at) else {
            // Most maps of most accounts never hold more than a pair or two.
            self.leaves.reserve_exact(1);
            self.push_leaf(key, value);
            return None;
        };
        let place = match leaf.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(place) => {
                let slot = Arc::make_mut(leaf).get_mut(place).map(|(_, slot)| slot);
                return slot.map(|slot| std::mem::replace(slot, value));
            }
            Err(place) => place,
        };
        if leaf.len() == LEAF_MAX {
            // A map that grows at its end leaves full leaves behind.
            if place == LEAF_MAX && at.saturating_add(1) == self.leaves.len() {
                self.push_leaf(key, value);
                return None;
            }
            self.split(at);
            at = self.leaf_of(&key);
        }
        self.insert_into(at, key, value);
        None
    }

    fn push_leaf(&mut self, key: K, value: V) {
        self.leaves.push((key.clone(), Arc::new(vec![(key, value)])));
    }

    /// Inserts a key that is not there into a leaf that has room.
    fn insert_into(&mut self, at: usize, key: K, value: V) {
        let Some((first, leaf)) = self.leaves.get_mut(at) else { return };
        let pairs = Arc::make_mut(leaf);
        let place = pairs.partition_point(|(other, _)| *other < key);
        if place == 0 {
            *first = key.clone();
        }
        pairs.insert(place, (key, value));
    }

    /// Removes a key and returns the value it had.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.leaf_of(key);
        let (first, leaf) = self.leaves.get_mut(at)?;
        let place = leaf.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
        let pairs = Arc::make_mut(leaf);
        let (_, value) = pairs.remove(place);
        match pairs.first() {
            Some((next, _)) if place == 0 => *first = next.clone(),
            Some(_) => (),
            None => drop(self.leaves.remove(at)),
        }
        self.join_thin(at);
        Some(value)
    }

    /// Joins the leaf at `at` to the one after it or before it, if it is thin and they fit.
    fn join_thin(&mut self, at: usize) {
        let pairs_at = |place: usize| self.leaves.get(place).map(|(_, leaf)| leaf.len());
        let Some(pairs) = pairs_at(at).filter(|pairs| *pairs < LEAF_THIN) else { return };
        let after = at.saturating_add(1);
        let fits = |place: usize| {
            pairs_at(place).is_some_and(|others| others.saturating_add(pairs) <= LEAF_MAX / 2)
        };
        let right = match at.checked_sub(1) {
            _ if fits(after) => after,
            Some(before) if fits(before) => at,
            _ => return,
        };
        let (_, upper) = self.leaves.remove(right);
        if let Some((_, lower)) = self.leaves.get_mut(right.saturating_sub(1)) {
            Arc::make_mut(lower).extend(Arc::unwrap_or_clone(upper));
        }
    }

    /// The pair with the lowest key.
    pub fn first(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// All pairs, by key.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.leaves.iter().flat_map(|(_, leaf)| leaf.iter()).map(|(key, value)| (key, value))
    }

    /// The pairs from `from` on, by key.
    pub fn range_from<'a>(
        &'a self,
        from: Bound<&K>,
    ) -> impl Iterator<Item = (&'a K, &'a V)> + use<'a, K, V> {
        let (at, place) = match from {
            Bound::Unbounded => (0, 0),
            Bound::Included(key) => self.place_of(key, false),
            Bound::Excluded(key) => self.place_of(key, true),
        };
        let leaves = self.leaves.iter().skip(at);
        leaves.flat_map(|(_, leaf)| leaf.iter()).skip(place).map(|(key, value)| (key, value))
    }

    /// Leaf and place of the first key that is not before `key` (or is after it).
    fn place_of(&self, key: &K, after: bool) -> (usize, usize) {
        let at = self.leaf_of(key);
        let place = self.leaves.get(at).map_or(0, |(_, leaf)| {
            leaf.partition_point(|(other, _)| if after { other <= key } else { other < key })
        });
        (at, place)
    }

    /// The leaf a key belongs to: the last one that does not start after it, else the first.
    fn leaf_of(&self, key: &K) -> usize {
        self.leaves.partition_point(|(first, _)| first <= key).saturating_sub(1)
    }

    fn split(&mut self, at: usize) {
        let Some((_, leaf)) = self.leaves.get_mut(at) else { return };
        let upper = Arc::make_mut(leaf).split_off(LEAF_MAX / 2);
        if let Some((first, _)) = upper.first() {
            self.leaves.insert(at.saturating_add(1), (first.clone(), Arc::new(upper)));
        }
    }
}

/// Builds a map from pairs that come in the order of their keys, with full leaves.
impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for CowMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut map = Self::default();
        map.extend(pairs);
        map
    }
}

impl<K: Ord + Clone, V: Clone> Extend<(K, V)> for CowMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        for (key, value) in pairs {
            let appends = self.iter().next_back().is_none_or(|(last, _)| *last < key);
            if !appends {
                self.insert(key, value);
                continue;
            }
            match self.leaves.last_mut().filter(|(_, leaf)| leaf.len() < LEAF_MAX) {
                Some((_, leaf)) => Arc::make_mut(leaf).push((key, value)),
                None => self.push_leaf(key, value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u16, u32),
        Remove(u16),
        /// Inserts all of the keys from here on, for some leaves.
        Fill(u16),
        /// Removes most of them.
        Thin(u16),
        Change(u16),
        Share,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (0..2_000_u16, any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
            3 => (0..2_000_u16).prop_map(Step::Remove),
            1 => (0..2_000_u16).prop_map(Step::Change),
            1 => (0..2_000_u16).prop_map(Step::Fill),
            1 => (0..2_000_u16).prop_map(Step::Thin),
            1 => Just(Step::Share),
        ];
        prop::collection::vec(step, 0..1_000)
    }

    #[test]
    fn a_map_that_is_thinned_out_gives_its_memory_back() {
        let mut map: CowMap<u16, u32> = (0..12_800).map(|key| (key, 0)).collect();
        assert_eq!(map.leaves.len(), 100);
        for key in (0..12_800).filter(|key| key % 128 != 0) {
            map.remove(&key);
        }
        assert_eq!(pairs(&map), (0..100).map(|leaf| (leaf * 128, 0)).collect::<Vec<_>>());
        // A hundred pairs, at more than 32 in two neighbors.
        assert!(map.leaves.len() <= 4, "{} leaves", map.leaves.len());
    }

    fn pairs<V: Copy>(map: &CowMap<u16, V>) -> Vec<(u16, V)> {
        map.iter().map(|(key, value)| (*key, *value)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Like a plain map, whatever is done; and a clone never sees what came after it.
        #[test]
        fn a_map_behaves_like_a_plain_one_and_clones_stay_as_they_were(steps in steps()) {
            let mut map = CowMap::default();
            let mut plain = BTreeMap::new();
            let mut shared: Vec<(CowMap<u16, u32>, BTreeMap<u16, u32>)> = Vec::new();
            for step in steps {
                match step {
                    Step::Insert(key, value) => {
                        prop_assert_eq!(map.insert(key, value), plain.insert(key, value));
                    }
                    Step::Remove(key) => prop_assert_eq!(map.remove(&key), plain.remove(&key)),
                    Step::Fill(from) => {
                        for key in (from..2_000).take(300) {
                            prop_assert_eq!(map.insert(key, 0), plain.insert(key, 0));
                        }
                    }
                    Step::Thin(from) => {
                        let keys = (from..2_000).take(300);
                        for key in keys.filter(|key| key % 8 != 0) {
                            prop_assert_eq!(map.remove(&key), plain.remove(&key));
                        }
                    }
                    Step::Change(key) => {
                        let changed = map.get_mut(&key).map(|value| *value ^= 1);
                        let expected = plain.get_mut(&key).map(|value| *value ^= 1);
                        prop_assert_eq!(changed, expected);
                    }
                    Step::Share if shared.len() < 3 => shared.push((map.clone(), plain.clone())),
                    Step::Share => (),
                }
            }
            shared.push((map, plain));
            for (map, plain) in shared {
                prop_assert_eq!(pairs(&map), plain.clone().into_iter().collect::<Vec<_>>());
                prop_assert_eq!(map.len(), plain.len());
                for (first, leaf) in &map.leaves {
                    prop_assert_eq!(leaf.first().map(|(key, _)| key), Some(first));
                    prop_assert!(leaf.len() <= LEAF_MAX);
                }
                for key in [0, 999, 1_999] {
                    prop_assert_eq!(map.get(&key), plain.get(&key));
                    let from: Vec<_> = map.range_from(Bound::Excluded(&key)).collect();
                    let bounds = (Bound::Excluded(key), Bound::Unbounded);
                    prop_assert_eq!(from, plain.range(bounds).collect::<Vec<_>>());
                    let from: Vec<_> = map.range_from(Bound::Included(&key)).collect();
                    prop_assert_eq!(from, plain.range(key..).collect::<Vec<_>>());
                }
                let rebuilt: CowMap<u16, u32> = plain.into_iter().collect();
                prop_assert_eq!(pairs(&rebuilt), pairs(&map));
            }
        }
    }
}
