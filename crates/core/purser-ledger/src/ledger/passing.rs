//! Which of a region's books decides a keyed call, and which calls none of them does (R10).
//!
//! A call is decided by one owner. What a region passes on to home is marked first, and from then on
//! no book of the region decides it; what one generation's book has decided, no other does. Only
//! what begins something can be passed on: everything else names a hold, and a hold has one owner.

use std::ops::Bound;
use std::sync::Arc;

use purser_types::{Generation, LogTime, Span};

use super::marks::Mark;
use super::{Ledger, name_digest};
use crate::account::Account;
use crate::answer::PassedOn;
use crate::command::{AccountName, Item};
use crate::digest::{Digest16, digest16};
use crate::protocol::Mode;
use crate::region::BookPhase;
use crate::rejection::Rejection;

impl Ledger {
    /// This region's books of an account with the generations of their allocations, oldest first.
    pub fn generations(
        &self,
        name: &AccountName,
    ) -> impl Iterator<Item = (Generation, &Arc<Account>)> {
        let home = (name.clone(), Generation::HOME);
        let after_home = self.names.range_from(Bound::Excluded(&home));
        let books = after_home.take_while(move |((other, _), _)| *other == home.0);
        books
            .filter_map(|((_, generation), number)| Some((*generation, self.accounts.get(number)?)))
    }

    /// The book that new calls of this region's clients are asked of: the newest that goes on, and
    /// that home has not told to end.
    pub fn spendable(&self, name: &AccountName) -> Option<&Arc<Account>> {
        let goes_on = |book: &Arc<Account>| {
            book.region_side()
                .is_ok_and(|region| region.phase == BookPhase::Open && region.mode != Mode::Ending)
        };
        self.generations(name).map(|(_, book)| book).filter(|book| goes_on(book)).last()
    }

    /// Whether this region has noted that it passed the call on to home, and still keeps to it at
    /// `now`. It saves a node from asking its own log.
    pub fn is_passed_on(&self, name: &AccountName, item: &Item, now: LogTime) -> bool {
        let key = item.key_of_beginning();
        key.is_some_and(|key| self.is_elsewhere(name, key, now))
    }

    /// Notes that home decides a call, unless one of this region's books has decided it.
    pub(super) fn pass_on(&mut self, name: &AccountName, item: &Item, retention: Span) -> PassedOn {
        let Some(asked) = item.identity().filter(|_| item.operation.begins()) else {
            return PassedOn::ToHome;
        };
        let now = self.log_time;
        let decided = self.generations(name).find(|(_, book)| book.knows(&asked.key, now));
        if let Some((generation, _)) = decided {
            return PassedOn::Decided(generation);
        }
        let mark = Mark { fingerprint: asked.fingerprint };
        self.marks.insert(call_digest(name, asked.key), mark, now, retention);
        PassedOn::ToHome
    }

    /// Whether a keyed call is not for this region's books at `now`: it was passed on, or the account's
    /// home was here and decided it. Which calls began something the keys do not say; another call's key
    /// does no harm, since the new home knows it as well.
    fn is_elsewhere(&self, name: &AccountName, key: Digest16, now: LogTime) -> bool {
        self.marks.get(&call_digest(name, key), now).is_some()
            || self.departed.knows(name, &key, now)
    }

    /// Why a region's book is not to decide some of the items, each in its place. Home's decides
    /// whatever it is asked.
    pub(super) fn bars(
        &self,
        name: &AccountName,
        generation: Generation,
        items: &[Item],
    ) -> Vec<Option<Rejection>> {
        if generation == Generation::HOME {
            return Vec::new();
        }
        items.iter().map(|item| self.bar(name, generation, item)).collect()
    }

    fn bar(&self, name: &AccountName, generation: Generation, item: &Item) -> Option<Rejection> {
        let key = item.key_of_beginning()?;
        if self.is_elsewhere(name, key, self.log_time) {
            return Some(Rejection::DecidedElsewhere);
        }
        let mut others = self.generations(name).filter(|(other, _)| *other != generation);
        let (generation, _) = others.find(|(_, book)| book.knows(&key, self.log_time))?;
        Some(Rejection::DecidedInGeneration { generation })
    }
}

/// What a mark is found by: an account and a key's digest, both of a fixed width.
fn call_digest(name: &AccountName, key: Digest16) -> Digest16 {
    digest16(&[name_digest(name, Generation::HOME), key].concat())
}
