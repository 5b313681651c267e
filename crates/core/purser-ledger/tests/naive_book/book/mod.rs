//! A second book of one account, as plain as it can be.
//!
//! Written from the specification alone. It shares no code and no types with the ledger, keeps
//! lists, and finds whatever it needs by looking at all of them: no agenda, no order that is kept,
//! no totals that are carried along. Times are seconds. Not here: hashes, retention of records,
//! units, who asked and why.

mod deciding;
mod moving;

use std::collections::BTreeMap;

use crate::asking::{Policy, Request, Terms};
use crate::telling::{About, Accepted, Bucket, Figures, Flow, Told};
use deciding::Place;

/// A day in seconds.
const DAY: u64 = 86_400;

/// The account.
#[derive(Debug, Clone, Default)]
pub(crate) struct Book {
    pub(crate) lots: Vec<Lot>,
    pub(crate) holds: Vec<Hold>,
    pub(crate) policy: Policy,
    pub(crate) standing: Standing,
    keys: Vec<Known>,
    now: u64,
    /// How many entries the ledger should have by now; the first one opened the account.
    pub(crate) entries: u64,
    /// What the operation in hand has moved so far.
    flows: Vec<Flow>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    #[default]
    Open,
    Frozen,
    Closed,
}

#[derive(Debug, Clone)]
pub(crate) struct Lot {
    terms: Terms,
    effective_at: u64,
    has_started: bool,
    has_expired: bool,
    is_voided: bool,
    pub(crate) parts: LotParts,
}

/// Where a lot's credits are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LotParts {
    pub(crate) waiting: u64,
    pub(crate) free: u64,
    pub(crate) held: u64,
    pub(crate) used: u64,
    pub(crate) expired: u64,
    pub(crate) voided: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) is_charge: bool,
    pub(crate) state: State,
    pub(crate) amount: u64,
    pub(crate) captured: u64,
    pub(crate) refunded: u64,
    pub(crate) reclaimed: Option<u64>,
    pub(crate) created_at: u64,
    pub(crate) expires_at: u64,
    /// Lot and amount it was made with, in the order in which they were drawn.
    pub(crate) made_with: Vec<(usize, u64)>,
    /// Lot and amount, in the order in which they will be spent.
    pub(crate) pins: Vec<(usize, u64)>,
    /// In the order in which they were taken.
    pub(crate) spent: Vec<Spent>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Active,
    Captured,
    Released,
    Expired,
}

/// Credits taken from a lot, or owed since an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) payer: Payer,
    pub(crate) amount: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payer {
    Lot(usize),
    Owed { since: u64 },
}

/// A decision that is remembered.
#[derive(Debug, Clone)]
struct Known {
    key: u32,
    request: Request,
    decided_at: u64,
    told: Told,
}

impl Book {
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, entries: 1, ..Self::default() }
    }

    /// Answers requests that take effect together or not at all.
    pub(crate) fn ask(&mut self, asked: &[(u32, Request)]) -> Vec<Told> {
        let before = self.clone();
        let mut told = Vec::new();
        for (key, request) in asked {
            told.push(self.ask_one(*key, request));
        }
        let Some(refused) = told.iter().position(|told| told.result.is_err()) else { return told };
        if told.len() == 1 {
            return told;
        }
        let refusal = told[refused].clone();
        *self = before;
        let aborted = Told::refused(Figures::code("batch_aborted").with(refused as u64));
        let told = asked
            .iter()
            .enumerate()
            .map(|(place, (key, request))| match self.known(*key, request) {
                _ if place == refused => refusal.clone(),
                Some(known) => known,
                None => aborted.clone(),
            })
            .collect();
        let (key, request) = &asked[refused];
        if !refusal.replayed {
            self.remember(*key, request, &refusal);
        }
        told
    }

    /// What is known under a key.
    fn known(&self, key: u32, request: &Request) -> Option<Told> {
        let known = self.keys.iter().find(|known| known.key == key)?;
        if known.request != *request {
            return Some(Told::refused(Figures::code("key_reused")));
        }
        Some(Told { replayed: true, ..known.told.clone() })
    }

    fn ask_one(&mut self, key: u32, request: &Request) -> Told {
        if let Some(told) = self.known(key, request) {
            return told;
        }
        self.flows.clear();
        let told = match self.decide(request) {
            Err(figures) => Told::refused(figures),
            Ok(place) => {
                let about = match place {
                    Place::Credits => About::Credits,
                    Place::Account => About::Account(self.standing, self.policy),
                    Place::Lot(lot) => About::Lot(lot),
                    Place::LotBefore(place) | Place::VoidedLot(place) => {
                        let lot = &self.lots[place];
                        About::KnownLot(place, lot.parts, lot.status())
                    }
                    Place::Hold(hold) => About::Hold(self.holds[hold].clone().tidy()),
                };
                if !matches!(place, Place::LotBefore(_)) {
                    self.entries += 1;
                }
                let flows = summed(std::mem::take(&mut self.flows));
                let repaid = self.repay();
                let accepted = Accepted { flows, about, repaid, balance: self.balance() };
                Told { result: Ok(accepted), replayed: false }
            }
        };
        self.remember(key, request, &told);
        told
    }

    fn remember(&mut self, key: u32, request: &Request, told: &Told) {
        let forgettable = ["grant_already_expired", "key_reused", "batch_aborted"];
        if told.result.as_ref().is_err_and(|figures| forgettable.contains(&figures.code)) {
            return;
        }
        let (request, told) = (request.clone(), told.clone());
        self.keys.push(Known { key, request, decided_at: self.now, told });
    }

    /// The buckets, added up from lots and holds.
    pub(crate) fn balance(&self) -> Balance {
        let over_lots =
            |part: fn(&LotParts) -> u64| self.lots.iter().map(|lot| part(&lot.parts)).sum();
        let pending = over_lots(|parts| parts.waiting);
        let owed = self.holds.iter().flat_map(|hold| &hold.spent);
        let owed = owed.filter(|spent| matches!(spent.payer, Payer::Owed { .. }));
        let came = |hold: &Hold| hold.captured + hold.reclaimed.unwrap_or(0);
        Balance {
            granted: self.lots.iter().map(|lot| lot.terms.amount).sum::<u64>() - pending,
            available: over_lots(|parts| parts.free),
            held: self.holds.iter().flat_map(|hold| &hold.pins).map(|(_, amount)| amount).sum(),
            used: self.holds.iter().map(|hold| came(hold) - hold.refunded).sum(),
            expired: over_lots(|parts| parts.expired),
            voided: over_lots(|parts| parts.voided),
            debt: owed.map(|spent| spent.amount).sum(),
            pending,
        }
    }
}

impl Hold {
    /// Neighbors in what was spent that have one payer, as one.
    pub(crate) fn tidy(mut self) -> Self {
        self.spent.dedup_by(|next, kept| {
            let same = next.payer == kept.payer;
            if same {
                kept.amount += next.amount;
            }
            same
        });
        self
    }
}

impl Lot {
    /// Whether it can still start or expire.
    fn lives(&self) -> bool {
        !self.has_expired && !self.is_voided
    }

    /// The name of what it shows.
    pub(crate) fn status(&self) -> &'static str {
        if self.is_voided {
            "voided"
        } else if self.has_expired {
            "expired"
        } else if !self.has_started {
            "pending"
        } else if self.parts.free + self.parts.held == 0 {
            "spent"
        } else {
            "active"
        }
    }
}

/// What an account shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Balance {
    pub(crate) granted: u64,
    pub(crate) available: u64,
    pub(crate) held: u64,
    pub(crate) used: u64,
    pub(crate) expired: u64,
    pub(crate) voided: u64,
    pub(crate) debt: u64,
    pub(crate) pending: u64,
}

/// Flows between the same two places as one.
fn summed(flows: Vec<Flow>) -> BTreeMap<(Option<usize>, Bucket, Bucket), u64> {
    let mut sums = BTreeMap::new();
    for flow in flows.into_iter().filter(|flow| flow.amount > 0) {
        *sums.entry((flow.lot, flow.from, flow.to)).or_default() += flow.amount;
    }
    sums
}
