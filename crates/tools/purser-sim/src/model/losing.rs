//! One loss of the home in a small world: what it takes on its own, who follows it, and its tail.

use purser_ledger::{Authorize, Bucket, Capture, Charge, Entry, IfExpired, Operation, Outcome};
use purser_types::{IdempotencyKey, Span};

use super::{Action, NOW, State, credits, oldest_hold};

impl State {
    /// What may come next about the home.
    pub(super) fn losing(&self, actions: &mut Vec<Action>) {
        if self.calls > 0 {
            actions.extend([Action::HomeAuthorize, Action::HomeCharge]);
            if oldest_hold(self.world.home_account()).is_some() {
                actions.push(Action::HomeCapture);
            }
            if !self.world.lost_homes().is_empty() {
                actions.push(Action::LostCharge);
            }
        }
        actions.push(Action::Replicate);
        if self.world.homes.lost_count() == 0 {
            actions.push(Action::FailOver);
        }
        if self.world.home_account().tails().next().is_some() {
            actions.push(Action::HearOfLostHome);
        }
    }

    pub(super) fn act_about_home(&mut self, action: Action) -> Option<()> {
        match action {
            Action::Replicate => self.world.replicate().then_some(()),
            Action::FailOver => {
                self.world.fail_over().then_some(())?;
                while self.world.take_over(usize::MAX, NOW) && !self.world.is_taken_over() {}
                self.world.take_home(NOW).then_some(())
            }
            Action::HearOfLostHome => {
                for lost in self.world.lost_homes() {
                    self.world.step_down(lost, NOW);
                }
                self.world.pull_tail(usize::MAX, NOW).then_some(())
            }
            Action::LostCharge => {
                self.calls = self.calls.checked_sub(1)?;
                let lost = self.world.lost_homes().into_iter().next()?;
                let key = self.key();
                let (outcome, leaves) = self.world.at_lost_home(lost, charge(), key, NOW)?;
                self.note_taken(&outcome, leaves)
            }
            _ => {
                self.calls = self.calls.checked_sub(1)?;
                let operation = self.operation_at_home(action)?;
                let key = Some(self.key());
                let outcome = self.world.at_home(operation, key, NOW);
                let leaves =
                    outcome.result.as_ref().is_ok_and(|it| self.world.may_answer(&it.entry));
                self.note_taken(&outcome, leaves)
            }
        }
    }

    /// Every call has a key of its own.
    fn key(&self) -> IdempotencyKey {
        IdempotencyKey::parse(&format!("call {}", self.calls)).expect("a key of plain text")
    }

    fn operation_at_home(&self, action: Action) -> Option<Operation> {
        Some(match action {
            Action::HomeAuthorize => Operation::Authorize(Authorize {
                amount: credits(1),
                ttl: Span::from_days(1),
                reference: None,
            }),
            Action::HomeCapture => Operation::Capture(Capture {
                hold: oldest_hold(self.world.home_account())?,
                amount: None,
                is_final: true,
                allow_debt: false,
                if_expired: IfExpired::Refuse,
                away: None,
            }),
            _ => charge(),
        })
    }

    /// Whoever is not told may have been served or not.
    fn note_taken(&mut self, outcome: &Outcome, leaves: bool) -> Option<()> {
        let entry = &outcome.result.as_ref().ok()?.entry;
        let taken = taken(entry);
        if leaves {
            self.used = self.used.checked_add(taken)?;
        } else {
            self.untold = self.untold.checked_add(taken)?;
        }
        Some(())
    }
}

fn charge() -> Operation {
    Operation::Charge(Charge { amount: credits(1), allow_debt: false, reference: None })
}

fn taken(entry: &Entry) -> i64 {
    let used = entry.moves.iter().filter(|step| step.to == Bucket::Used);
    used.map(|step| i64::try_from(step.amount.get()).unwrap_or(i64::MAX)).sum()
}
