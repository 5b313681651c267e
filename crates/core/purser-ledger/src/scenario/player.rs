//! Plays a transcript's lines against a ledger in memory.

use purser_types::{ApplyError, LogTime, Machine, Position, Stamped};

use super::Stop;
use super::line_error::LineError;
use super::memory::MemoryHistory;
use super::moment::parse_instant;
use super::names::Names;
use super::proof::{self, Unproved};
use super::questions::Desk;
use super::requests::{Reader, Request, account};
use super::telling::Teller;
use super::words::Words;
use crate::account::AccountNumber;
use crate::answer::{Answer, Outcome};
use crate::balance::Balance;
use crate::chain::Record;
use crate::codec;
use crate::command::{AccountName, Command, Item};
use crate::entry::Entry;
use crate::invariants;
use crate::ledger::Ledger;

/// A command as it went through the log.
#[derive(Debug)]
pub(super) struct Logged {
    pub(super) at: LogTime,
    pub(super) bytes: Vec<u8>,
}

/// The ledger in play and what the transcript has said so far.
#[derive(Debug, Default)]
pub(super) struct Player {
    ledger: Ledger,
    history: MemoryHistory,
    log: Vec<Logged>,
    /// What the log's clock shows: stamped on the next command, even if it lies in the past.
    clock: LogTime,
    names: Names,
    /// The account of the command before.
    account: Option<AccountName>,
    /// The lines of a batch that has not ended yet.
    batch: Option<(AccountName, Vec<Request>)>,
}

/// The answers to one line.
type Answers = Vec<String>;

impl Player {
    /// Takes one line and answers it.
    pub(super) fn take(&mut self, text: &str, line: usize) -> Result<Answers, Stop> {
        let (verb, rest) = text.trim().split_once(' ').unwrap_or_else(|| (text.trim(), ""));
        if verb.is_empty() || verb.starts_with('#') {
            return Ok(Vec::new());
        }
        match self.read(verb, rest, line) {
            Ok(Line::Nothing) => Ok(Vec::new()),
            Ok(Line::Answered(answers)) => answers,
            Ok(Line::Requests(account, requests)) => self.change(account, requests),
            Ok(Line::Sweep(accounts_max)) => self.sweep(accounts_max),
            Err(error) => Ok(vec![format!("unreadable: {error}")]),
        }
    }

    /// Proves what the transcript led to.
    pub(super) fn prove(&self) -> Result<(), Unproved> {
        proof::prove(&self.ledger, &self.history, &self.log)
    }

    fn read(&mut self, verb: &str, rest: &str, line: usize) -> Result<Line, LineError> {
        if self.batch.is_some() {
            return self.read_in_batch(verb, rest, line);
        }
        let mut words = Words::of(rest)?;
        match verb {
            "@" => {
                self.clock = parse_instant(words.plain("time")?)?;
                words.end()?;
                Ok(Line::Nothing)
            }
            "batch" => {
                self.batch = Some((account(&mut words)?, Vec::new()));
                words.end()?;
                Ok(Line::Nothing)
            }
            "sweep" => {
                words.end()?;
                Ok(Line::Sweep(u32::MAX))
            }
            "restart" => {
                words.end()?;
                Ok(Line::Answered(self.restart()))
            }
            question if Desk::answers(question) => {
                let answers = self.desk().answer(question, words)?;
                Ok(Line::Answered(answers.map_err(Stop::from)))
            }
            _ => {
                let request = self.request(verb, words, line)?;
                Ok(Line::Requests(request.account.clone(), vec![request]))
            }
        }
    }

    /// Reads a line between `batch` and `end`. One that makes no sense is answered and left out.
    fn read_in_batch(&mut self, verb: &str, rest: &str, line: usize) -> Result<Line, LineError> {
        let words = Words::of(rest)?;
        if verb == "end" {
            words.end()?;
            let batch = self.batch.take();
            return Ok(batch.map_or(Line::Nothing, |(name, items)| Line::Requests(name, items)));
        }
        let request = self.request(verb, words, line)?;
        let Some((name, requests)) = &mut self.batch else { return Ok(Line::Nothing) };
        if request.account != *name {
            return Err(LineError::OtherAccount);
        }
        requests.push(request);
        Ok(Line::Nothing)
    }

    fn request(&self, verb: &str, words: Words<'_>, line: usize) -> Result<Request, LineError> {
        let batch_account = self.batch.as_ref().map(|(account, _)| account);
        let reader = Reader {
            names: &self.names,
            account_before: batch_account.or(self.account.as_ref()),
            ledger: &self.ledger,
            line,
        };
        reader.request(verb, words)
    }

    fn desk(&self) -> Desk<'_> {
        Desk {
            ledger: &self.ledger,
            history: &self.history,
            names: &self.names,
            account_before: self.account.as_ref(),
            now: self.now(),
        }
    }

    /// Log time never goes back, whatever the clock shows.
    fn now(&self) -> LogTime {
        self.clock.max(self.ledger.log_time())
    }

    /// Puts requests through the log and tells what came of them.
    fn change(&mut self, name: AccountName, requests: Vec<Request>) -> Result<Answers, Stop> {
        let (items, given): (Vec<Item>, Vec<Option<String>>) =
            requests.into_iter().map(|request| (request.item, request.name)).unzip();
        let command = Command::Account { account: name.clone(), items };
        let (answer, written) = self.apply(&command)?;
        let Answer::Account(outcomes) = answer else { return Ok(Vec::new()) };
        for (outcome, given) in outcomes.iter().zip(&given) {
            if let (Ok(receipt), Some(given)) = (&outcome.result, given) {
                self.names.give(given, &name, &receipt.entry);
            }
        }
        let teller = Teller { names: &self.names, account: &name };
        let mut answers: Answers = written.iter().map(|(_, entry)| teller.entry(entry)).collect();
        let is_new = |entry: &Entry| written.iter().any(|(_, other)| other == entry);
        answers.extend(outcomes.iter().filter_map(|outcome| teller.outcome(outcome, is_new)));
        answers.extend(self.balance_line(&name, &outcomes)?);
        self.account = Some(name);
        Ok(answers)
    }

    /// The balance that the last answer carries, or the one that a refusal left as it was.
    fn balance_line(
        &self,
        name: &AccountName,
        outcomes: &[Outcome],
    ) -> Result<Option<String>, ApplyError> {
        let teller = Teller { names: &self.names, account: name };
        if let Some(Ok(receipt)) = outcomes.last().map(|outcome| &outcome.result) {
            return Ok(Some(teller.balance_of(receipt)));
        }
        Ok(self.balance(name)?.map(|balance| teller.balance(&balance)))
    }

    fn balance(&self, name: &AccountName) -> Result<Option<Balance>, ApplyError> {
        let Some(account) = self.ledger.account(name) else { return Ok(None) };
        Ok(Some(account.at(self.now(), &self.history)?.account().balance()))
    }

    fn sweep(&mut self, accounts_max: u32) -> Result<Answers, Stop> {
        let (answer, written) = self.apply(&Command::Sweep { accounts_max })?;
        let mut answers = Vec::new();
        if let Answer::Swept { accounts } = answer {
            answers.push(format!("swept {accounts}"));
        }
        for (number, entry) in &written {
            let Some(account) = self.ledger.account_numbered(*number) else { continue };
            let teller = Teller { names: &self.names, account: account.name() };
            answers.push(teller.entry(entry));
        }
        Ok(answers)
    }

    /// Applies a command as a replica does, from its bytes, and checks what must always hold.
    fn apply(&mut self, command: &Command) -> Result<(Answer, Vec<(AccountNumber, Entry)>), Stop> {
        let logged = Logged { at: self.clock, bytes: codec::encode(command) };
        let index = u64::try_from(self.log.len()).unwrap_or(u64::MAX).saturating_add(1);
        let end_before = self.history.end();
        let answer = self.ledger.apply(logged.stamped(index), &mut self.history)?;
        self.log.push(logged);
        invariants::check_ledger(&self.ledger)?;
        Ok((answer, written_from(&self.history, end_before)?))
    }

    /// Goes on from a snapshot, as a node does that was started again.
    fn restart(&mut self) -> Result<Answers, Stop> {
        self.ledger = Ledger::restore(&mut self.ledger.snapshot())?;
        Ok(vec!["restarted".to_owned()])
    }
}

impl Logged {
    /// The command as the log delivers it.
    pub(super) fn stamped(&self, index: u64) -> Stamped<'_> {
        Stamped { index, ordinal: 0, at: self.at, command: &self.bytes }
    }
}

/// What a line comes to.
enum Line {
    Nothing,
    Answered(Result<Answers, Stop>),
    Requests(AccountName, Vec<Request>),
    Sweep(u32),
}

/// The entries whose records stand at `from` and after it.
fn written_from(
    history: &MemoryHistory,
    from: Position,
) -> Result<Vec<(AccountNumber, Entry)>, ApplyError> {
    let mut written = Vec::new();
    for (position, _) in history.records_from(from) {
        let record = Record::read(history, position)?;
        written.push((record.account, record.entry(position)?.entry));
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn play(lines: &[&str]) -> (Player, Answers) {
        let mut player = Player::default();
        let mut answers = Vec::new();
        for (text, line) in lines.iter().zip(1..) {
            answers = player.take(text, line).unwrap();
        }
        (player, answers)
    }

    #[track_caller]
    fn check_unreadable(line: &str, why: &str) {
        let (mut player, _) = play(&["open acme", "grant acme 100"]);
        assert_eq!(player.take(line, 3).unwrap(), [format!("unreadable: {why}")], "{line}");
        assert_eq!(player.take("balance acme", 4).unwrap(), ["A=100"]);
    }

    #[test]
    fn a_line_that_makes_no_sense_is_answered_and_the_play_goes_on() {
        check_unreadable("spend acme 5", "`spend` is not a command");
        check_unreadable("charge acme 5 allow_dept", "`allow_dept` is not expected here");
        check_unreadable("charge acme 5 refrence=a", "`refrence` is not expected here");
        check_unreadable("charge acme 5 key=a key=b", "`key=b` is not expected here");
        check_unreadable("charge acme", "amount is missing");
        check_unreadable(
            "grant acme 5 exp=soon",
            "time must be a number with one of the units s, m, h, d",
        );
        check_unreadable("capture #2 5 final=no", "final must be true or false");
        check_unreadable("capture #two 5", "`#two` is not expected here");
        check_unreadable("check beta 5", "there is no such account");
        check_unreadable("end", "`end` is not a command");
    }

    #[test]
    fn a_batch_is_of_one_account_and_leaves_out_what_cannot_be_read() {
        let (mut player, _) = play(&["open acme", "open beta", "batch acme", "grant acme 5"]);
        let other = "unreadable: the items of a batch must be of one account";
        assert_eq!(player.take("grant beta 5", 5).unwrap(), [other]);
        let question = "unreadable: `balance` is not a command";
        assert_eq!(player.take("balance acme", 6).unwrap(), [question]);
        assert_eq!(player.take("end", 7).unwrap(), ["grant #2 5, granted>available #2=5", "A=5"]);
    }

    #[test]
    fn the_proof_notices_a_log_or_a_history_that_led_elsewhere() {
        let lines = ["open acme", "grant acme 100", "charge acme 5"];
        let (mut player, _) = play(&lines);
        player.prove().unwrap();
        player.log.pop();
        assert!(matches!(player.prove(), Err(Unproved::Replica)));

        let (mut player, _) = play(&lines);
        player.history = play(&["open acme", "grant acme 100", "charge acme 6"]).0.history;
        assert!(matches!(player.prove(), Err(Unproved::Replica)));
    }
}
