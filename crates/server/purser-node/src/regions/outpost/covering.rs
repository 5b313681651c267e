//! What a region cannot pay for by itself, and home is asked to cover.
//!
//! A call that waits has a place here, by what it asks. What home has set aside for a call that does not
//! wait any more goes back; also what a leader finds that did not ask for it.

use std::sync::Arc;

use purser_ledger::{Account, AccountName, Cover, Identity, Item, LotNumber, Rejection};
use purser_types::{Credits, Generation, Region};

use super::Outpost;
use super::notes::Wanted;

/// A call that waits for home to cover it, until it is dropped.
pub(crate) struct Covering {
    outpost: Arc<Outpost>,
    account: AccountName,
    generation: Generation,
    /// What it is known by; nothing if home cannot cover it.
    asked: Option<Identity>,
    /// Whether home was asked before.
    has_asked: bool,
}

impl Outpost {
    /// A place for a call about a hold or charge of this region that needs more than its book may spend.
    pub(crate) fn covering(
        self: &Arc<Self>,
        account: &AccountName,
        generation: Generation,
        item: &Item,
    ) -> Covering {
        let (outpost, account) = (Arc::clone(self), account.clone());
        Covering { outpost, account, generation, asked: item.identity(), has_asked: false }
    }

    /// The covers in a book that no call waits for.
    pub(super) fn unwanted_covers(&self, book: &Account) -> Vec<LotNumber> {
        let mut open = book.open_covers().peekable();
        if open.peek().is_none() {
            return Vec::new();
        }
        let notes = self.notes();
        let known = notes.get(book.name()).and_then(|it| it.books.get(&book.owner().generation));
        let is_wanted =
            |asked: &Identity| known.is_some_and(|known| known.covers.contains_key(asked));
        open.filter(|(_, asked, _)| !is_wanted(asked)).map(|(number, ..)| number).collect()
    }
}

impl Covering {
    /// Has home asked at once to cover what is missing. If home has answered with neither a cover nor a
    /// no, the region asks for an ordinary grant besides, which has other regions give back.
    pub(crate) fn ask(&mut self, item: &Item, (short_by, home): (Credits, Region)) {
        let outpost = &self.outpost;
        let book =
            outpost.group.view(|ledger, _| ledger.book(&self.account, self.generation).cloned());
        let Some(book) = book else { return };
        let cover = Cover::of(outpost.owner(self.generation), item, short_by);
        let now = outpost.now();
        let mut notes = outpost.notes();
        let known = notes.entry(self.account.clone()).or_default();
        let noted = known.book(&book, now);
        if self.has_asked || cover.is_none() {
            // What is wanted counts from nothing, as a call's cost does.
            let needed = book.right().checked_add(short_by).unwrap_or(Credits::MAX);
            noted.demand.wanted(needed, now);
        }
        if let Some(cover) = cover {
            noted.covers.insert(cover.asked, Wanted { cover, refusal: None });
        }
        known.is_asking = true;
        drop(notes);
        self.has_asked = true;
        outpost.report_soon(home);
    }

    /// Home's no, if it has said so.
    pub(crate) fn refusal(&self) -> Option<Rejection> {
        let notes = self.outpost.notes();
        let known = notes.get(&self.account)?.books.get(&self.generation)?;
        known.covers.get(&self.asked?)?.refusal.clone()
    }
}

impl Drop for Covering {
    fn drop(&mut self) {
        let mut notes = self.outpost.notes();
        let known = notes.get_mut(&self.account).and_then(|it| it.books.get_mut(&self.generation));
        if let (Some(known), Some(asked)) = (known, self.asked) {
            known.covers.remove(&asked);
        }
    }
}
