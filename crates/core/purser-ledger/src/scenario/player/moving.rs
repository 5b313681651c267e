//! Lines about homes: an account is taken over by another group, and the home before plays on.

use purser_types::{LogTime, Region};

use super::{Answers, Line, LineError, Player};
use crate::account::Account;
use crate::answer::Answer;
use crate::command::{AccountName, Command, Context, Item, Operation};
use crate::moving::{
    Import, ImportPart, KeyMemory, MoveRefusal, MoveStep, StepDown, TakeHome, Way,
};
use crate::protocol::Booked;
use crate::scenario::Stop;
use crate::scenario::allocating::epoch;
use crate::scenario::group::Group;
use crate::scenario::moving_texts::step_text;
use crate::scenario::names::{Book, Place};
use crate::scenario::overspend;
use crate::scenario::requests::{Request, account};
use crate::scenario::telling::Teller;
use crate::scenario::words::Words;

/// What the home before is called.
const OLD: &str = "old";

impl Player {
    pub(super) fn move_step(
        &mut self,
        place: Place,
        verb: &str,
        mut words: Words<'_>,
    ) -> Result<Line, LineError> {
        if verb == "standby" {
            words.end()?;
            self.standby = self.groups.get(&None).cloned();
            return Ok(Line::Answered(Ok(vec!["the standby has all".to_owned()])));
        }
        let name = account(&mut words)?;
        match verb {
            "import" => {
                let source = if words.flag("standby") {
                    self.standby.clone()
                } else {
                    self.groups.get(&None).cloned()
                };
                words.end()?;
                let source = source.ok_or(LineError::NoAccount)?;
                Ok(Line::Answered(self.import_all(&source, &name)))
            }
            "abandon" => {
                words.end()?;
                let command = Command::Import(Import { account: name, part: ImportPart::Abandon });
                Ok(Line::Answered(step(&mut self.arriving, &command, self.clock)))
            }
            "take_home" => {
                let home = Region::parse(words.plain("region")?)?;
                let epoch = epoch(&mut words)?;
                let lost = words.named("lost").map(Region::parse).transpose()?;
                words.end()?;
                let way = lost.map_or(Way::Moved, |from| Way::FailedOver { from });
                let book = Book::at_home(name.clone());
                let source =
                    if lost.is_some() { self.standby.as_ref() } else { self.groups.get(&None) };
                let head = source.and_then(|source| source.book(&book)).map(Account::head);
                let head = head.ok_or(LineError::NoAccount)?;
                let head = Booked { sequence: head.sequence, hash: Some(head.hash) };
                Ok(Line::Answered(self.take_home(TakeHome {
                    account: name,
                    home,
                    epoch,
                    way,
                    head,
                })))
            }
            "step_down" => {
                let home = Region::parse(words.plain("region")?)?;
                let asked = StepDown { account: name, home, epoch: epoch(&mut words)? };
                words.end()?;
                let group = self.groups.entry(place).or_default();
                Ok(Line::Answered(step(group, &Command::StepDown(asked), self.clock)))
            }
            _ => {
                words.end()?;
                self.tail(name)
            }
        }
    }

    /// Takes over everything that is not there yet, as a node would: part by part.
    fn import_all(&mut self, source: &Group, name: &AccountName) -> Result<Answers, Stop> {
        let book = Book::at_home(name.clone());
        let Some(account) = source.book(&book) else { return Ok(vec!["nothing there".to_owned()]) };
        loop {
            let have = self.arriving.ledger.arrival(name).map(|found| found.head.sequence);
            let entries = account.entries_after(have.unwrap_or_default(), &source.history)?;
            if entries.is_empty() {
                break;
            }
            let part = ImportPart::Entries(entries);
            if let Err(refusal) = self.import(name, part)? {
                return Ok(vec![step_text(&Err(refusal))]);
            }
        }
        let memory = ImportPart::Memory {
            pairs: memory_of(account, source)?,
            complete_at: Some(account.head().sequence),
        };
        Ok(vec![step_text(&self.import(name, memory)?)])
    }

    fn import(
        &mut self,
        name: &AccountName,
        part: ImportPart,
    ) -> Result<Result<MoveStep, MoveRefusal>, Stop> {
        let command = Command::Import(Import { account: name.clone(), part });
        let (answer, _) = self.arriving.apply(&command, self.clock)?;
        let Answer::Move(step) = answer else { return Ok(Err(MoveRefusal::NotHere)) };
        Ok(step)
    }

    /// The group that took the account over plays on as home, and the one before as `old`.
    fn take_home(&mut self, asked: TakeHome) -> Result<Answers, Stop> {
        let book = Book::at_home(asked.account.clone());
        let (answer, written) = self.arriving.apply(&Command::TakeHome(asked), self.clock)?;
        let teller = Teller { names: &self.names, book: &book };
        let mut answers: Answers = written.iter().map(|(_, entry)| teller.entry(entry)).collect();
        let Answer::Move(step) = answer else { return Ok(answers) };
        answers.push(step_text(&step));
        if step.is_ok() && !written.is_empty() {
            let arrived = std::mem::take(&mut self.arriving);
            let before = self.groups.insert(None, arrived).unwrap_or_default();
            let old = Region::parse(OLD).ok();
            self.groups.insert(old, before);
        }
        overspend::check(&self.groups)?;
        Ok(answers)
    }

    /// What the old home has decided besides is booked as one page.
    fn tail(&self, name: AccountName) -> Result<Line, LineError> {
        let book = Book::at_home(name.clone());
        let home = self.groups.get(&None).and_then(|home| home.book(&book));
        let tail = home.and_then(|home| home.tails().next()).ok_or(LineError::NoAccount)?;
        let old = self.groups.get(&Region::parse(OLD).ok()).ok_or(LineError::NoAccount)?;
        let found = old.ledger.tail_after(&name, tail.epoch, &[tail.booked], &old.history);
        let page = match found {
            Ok(page) => page.ok_or(LineError::NoAccount)?,
            Err(error) => return Ok(Line::Answered(Err(error.into()))),
        };
        let operation = Operation::BookTail(page);
        let item = Item::new(Context::default(), operation);
        let request = Request { book: book.clone(), item, name: None, worker: None };
        Ok(Line::Requests(book, vec![request]))
    }
}

/// Applies a step that writes no entry.
fn step(group: &mut Group, command: &Command, clock: LogTime) -> Result<Answers, Stop> {
    let (answer, _) = group.apply(command, clock)?;
    Ok(if let Answer::Move(step) = answer { vec![step_text(&step)] } else { Vec::new() })
}

fn memory_of(account: &Account, source: &Group) -> Result<Vec<KeyMemory>, Stop> {
    let decisions = account.entryless_decisions(None, &source.history);
    Ok(decisions.collect::<Result<Vec<_>, _>>()?)
}
