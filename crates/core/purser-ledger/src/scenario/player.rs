//! Plays a transcript's lines against ledgers in memory: home's and those of its regions.

mod moving;

use std::collections::BTreeMap;

use purser_types::{Credits, LogTime, Region, Span};

use super::Stop;
use super::group::Group;
use super::jobs;
use super::line_error::LineError;
use super::messages::{self, Extent, Message, Messages};
use super::moment::{parse_instant, parse_span};
use super::names::{Book, Names, Place};
use super::overspend;
use super::proof::Unproved;
use super::questions::Desk;
use super::requests::{Reader, Request, book};
use super::telling::Teller;
use super::words::Words;
use crate::answer::{Answer, Outcome, PassedOn};
use crate::command::{Command, Context, Cover, Item, Operation};
use crate::entry::Entry;
use crate::jobs::LeaseJobs;

/// The groups in play and what the transcript has said so far.
#[derive(Debug, Default)]
pub(super) struct Player {
    groups: BTreeMap<Place, Group>,
    /// The groups as they were when they were last backed up.
    backups: BTreeMap<Place, Group>,
    messages: Messages,
    /// What the logs' clock shows: stamped on the next command, even if it lies in the past.
    clock: LogTime,
    names: Names,
    /// The book of the command before, in each group.
    books: BTreeMap<Place, Book>,
    /// What home's standby has of it.
    standby: Option<Group>,
    /// The group that takes an account over.
    arriving: Group,
    /// The lines of a batch that has not ended yet.
    batch: Option<(Book, Vec<Request>)>,
}

/// The answers to one line.
type Answers = Vec<String>;

/// What a line comes to.
enum Line {
    Nothing,
    Answered(Result<Answers, Stop>),
    Requests(Book, Vec<Request>),
    Sweep(Place),
    PassOn(Box<Request>, Span),
    Lease(Place, LeaseJobs, String),
}

impl Player {
    /// Takes one line and answers it.
    pub(super) fn take(&mut self, text: &str, line: usize) -> Result<Answers, Stop> {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return Ok(Vec::new());
        }
        match self.read(text, line) {
            Ok(Line::Nothing) => Ok(Vec::new()),
            Ok(Line::Answered(answers)) => answers,
            Ok(Line::Requests(book, requests)) => self.change(book, requests),
            Ok(Line::Sweep(place)) => self.sweep(place),
            Ok(Line::PassOn(request, retention)) => self.pass_on(*request, retention),
            Ok(Line::Lease(place, asked, worker)) => self.lease(place, asked, &worker),
            Err(error) => Ok(vec![format!("unreadable: {error}")]),
        }
    }

    /// Proves what the transcript led to, in every group.
    pub(super) fn prove(&self) -> Result<(), Unproved> {
        self.groups.values().try_for_each(Group::prove)
    }

    fn read(&mut self, text: &str, line: usize) -> Result<Line, LineError> {
        let (place, text) = place_of(text)?;
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        if self.batch.is_some() {
            return self.read_in_batch(place, verb, rest, line);
        }
        let mut words = Words::of(rest)?;
        match verb {
            "@" => {
                self.clock = parse_instant(words.plain("time")?)?;
                words.end()?;
                Ok(Line::Nothing)
            }
            "batch" => {
                let book = self.book(place, &mut words)?;
                words.end()?;
                self.batch = Some((book, Vec::new()));
                Ok(Line::Nothing)
            }
            "lease" => jobs::lease(words).map(|(asked, worker)| Line::Lease(place, asked, worker)),
            "sweep" => words.end().map(|()| Line::Sweep(place)),
            "restart" => words.end().map(|()| Line::Answered(self.restart(place))),
            "backup" => words.end().map(|()| Line::Answered(self.back_up(place))),
            "restore" => words.end().map(|()| Line::Answered(self.restore(place))),
            "voucher" | "report" => self.write(place, verb, words, line),
            "deliver" => self.deliver(words),
            "standby" | "import" | "abandon" | "take_home" | "step_down" | "tail" => {
                self.move_step(place, verb, words)
            }
            "pass_on" => self.read_pass_on(place, rest, line),
            "cover" => self.read_cover(place, rest, line),
            question if Desk::answers(question) => {
                let answers = self.desk(place).answer(question, words)?;
                Ok(Line::Answered(answers.map_err(Stop::from)))
            }
            _ => {
                let request = self.reader(place, line).request(verb, words)?;
                Ok(Line::Requests(request.book.clone(), vec![request]))
            }
        }
    }

    /// Reads a line between `batch` and `end`. One that makes no sense is answered and left out.
    fn read_in_batch(
        &mut self,
        place: Place,
        verb: &str,
        rest: &str,
        line: usize,
    ) -> Result<Line, LineError> {
        let words = Words::of(rest)?;
        if verb == "end" {
            words.end()?;
            let batch = self.batch.take();
            return Ok(batch.map_or(Line::Nothing, |(book, items)| Line::Requests(book, items)));
        }
        let request = self.reader(place, line).request(verb, words)?;
        let Some((book, requests)) = &mut self.batch else { return Ok(Line::Nothing) };
        if request.book != *book {
            return Err(LineError::OtherAccount);
        }
        requests.push(request);
        Ok(Line::Nothing)
    }

    fn book(&mut self, place: Place, words: &mut Words<'_>) -> Result<Book, LineError> {
        book(place, self.groups.entry(place).or_default(), words)
    }

    fn reader(&mut self, place: Place, line: usize) -> Reader<'_> {
        let batch_book = self.batch.as_ref().map(|(book, _)| book);
        Reader {
            place,
            names: &self.names,
            book_before: batch_book.or_else(|| self.books.get(&place)),
            group: self.groups.entry(place).or_default(),
            line,
        }
    }

    fn desk(&mut self, place: Place) -> Desk<'_> {
        let group = self.groups.entry(place).or_default();
        Desk {
            place,
            now: group.now(self.clock),
            group,
            names: &self.names,
            book_before: self.books.get(&place),
        }
    }

    /// Writes a message and keeps it under its name.
    fn write(
        &mut self,
        place: Place,
        verb: &str,
        mut words: Words<'_>,
        line: usize,
    ) -> Result<Line, LineError> {
        let is_voucher = verb == "voucher";
        let mut book = self.book(place, &mut words)?;
        if is_voucher {
            book.owner = Some(self.reader(None, line).owner(&book.account, &mut words)?);
        }
        let name = words.plain("the message's name")?.to_owned();
        let at_home = Book::at_home(book.account.clone());
        let home = self.groups.get(&None).and_then(|home| home.book(&at_home));
        let message = if is_voucher {
            Ok(Some(messages::voucher(home, &book, &mut words)?))
        } else {
            let extent = Extent::of(&mut words)?;
            let region = self.groups.get(&place).ok_or(LineError::NoAllocation)?;
            messages::report(region, home, &book, &extent)
        };
        words.end()?;
        let message = match message {
            Ok(message) => message.ok_or(LineError::NoAllocation)?,
            Err(error) => return Ok(Line::Answered(Err(error.into()))),
        };
        let told = Teller { names: &self.names, book: &book }.message(&message);
        self.messages.insert(name, message);
        Ok(Line::Answered(Ok(vec![told])))
    }

    /// Gives a message to whom it is for.
    fn deliver(&self, mut words: Words<'_>) -> Result<Line, LineError> {
        let name = words.plain("the message's name")?;
        words.end()?;
        let message = self.messages.get(name).cloned();
        let request = message.map(Message::request).ok_or(LineError::NoMessage)?;
        Ok(Line::Requests(request.book.clone(), vec![request]))
    }

    /// Reads the request that a region wants to pass on, and how long its key is kept: a day, or `for=`.
    fn read_pass_on(&mut self, place: Place, rest: &str, line: usize) -> Result<Line, LineError> {
        let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut words = Words::of(rest)?;
        let retention = words.named("for").map(parse_span).transpose()?;
        let request = self.reader(place, line).request(verb, words)?;
        Ok(Line::PassOn(Box::new(request), retention.unwrap_or(Span::from_days(1))))
    }

    /// Reads what a region asks home to cover: how much is missing, and the request that it is for.
    fn read_cover(&mut self, place: Place, rest: &str, line: usize) -> Result<Line, LineError> {
        let (amount, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let amount = Credits::parse(amount)?;
        let Request { book, mut item, .. } =
            self.reader(place, line).request(verb, Words::of(rest)?)?;
        let shortage = item.shortage.take();
        let owner = book.owner.ok_or(LineError::NoAllocation)?;
        let cover = Cover::of(owner, &item, amount).ok_or(LineError::NoAllocation)?;
        let asked = Item::new(Context::default(), Operation::Cover(cover));
        let book = Book::at_home(book.account);
        let request = Request {
            book: book.clone(),
            item: Item { shortage, ..asked },
            name: None,
            worker: None,
        };
        Ok(Line::Requests(book, vec![request]))
    }

    fn pass_on(&mut self, request: Request, retention: Span) -> Result<Answers, Stop> {
        let Request { book, item, .. } = request;
        let (account, item) = (book.account.clone(), Box::new(item));
        let command = Command::PassOn { account, item, retention };
        let group = self.groups.entry(book.place()).or_default();
        let (answer, _) = group.apply(&command, self.clock)?;
        Ok(match answer {
            Answer::PassedOn(PassedOn::ToHome) => vec!["to home".to_owned()],
            Answer::PassedOn(PassedOn::Decided(generation)) => {
                vec![format!("decided in generation={}", generation.0)]
            }
            Answer::Account(_)
            | Answer::Swept { .. }
            | Answer::Move(_)
            | Answer::Life(_)
            | Answer::Leased(_)
            | Answer::Sink(_) => Vec::new(),
        })
    }

    /// Puts requests through the log of the book's group and tells what came of them.
    fn change(&mut self, book: Book, requests: Vec<Request>) -> Result<Answers, Stop> {
        let (items, given): (Vec<Item>, Vec<_>) = requests
            .into_iter()
            .map(|request| (request.item, (request.name, request.worker)))
            .unzip();
        let generation = book.owner.map(|owner| owner.generation).unwrap_or_default();
        let command = Command::Account { account: book.account.clone(), items, generation };
        let group = self.groups.entry(book.place()).or_default();
        let (answer, written) = group.apply(&command, self.clock)?;
        overspend::check(&self.groups)?;
        let Answer::Account(outcomes) = answer else { return Ok(Vec::new()) };
        written.iter().for_each(|(_, entry)| self.names.note(&book, entry));
        for (outcome, given) in outcomes.iter().zip(&given) {
            let Ok(receipt) = &outcome.result else { continue };
            if let (Some(given), _) = given {
                self.names.give(given, &book, &receipt.entry);
            }
            if let ((_, Some(worker)), Some(job)) = (given, receipt.entry.fact.job()) {
                self.names.note_lease(worker, &book.account, job);
            }
        }
        let teller = Teller { names: &self.names, book: &book };
        let mut answers: Answers = written.iter().map(|(_, entry)| teller.entry(entry)).collect();
        let is_new = |entry: &Entry| written.iter().any(|(_, other)| other == entry);
        answers.extend(outcomes.iter().filter_map(|outcome| teller.outcome(outcome, is_new)));
        answers.extend(self.balance_line(&book, &outcomes)?);
        self.books.insert(book.place(), book);
        Ok(answers)
    }

    /// The balance that the last answer carries, or the one that a refusal left as it was.
    fn balance_line(&self, book: &Book, outcomes: &[Outcome]) -> Result<Option<String>, Stop> {
        let teller = Teller { names: &self.names, book };
        if let Some(Ok(receipt)) = outcomes.last().map(|outcome| &outcome.result) {
            return Ok(Some(teller.balance_of(receipt)));
        }
        let Some(group) = self.groups.get(&book.place()) else { return Ok(None) };
        let Some(account) = group.book(book) else { return Ok(None) };
        let view = account.at(group.now(self.clock), &group.history)?;
        Ok(Some(teller.balance(view.account().balance())))
    }

    fn sweep(&mut self, place: Place) -> Result<Answers, Stop> {
        let (answer, told) =
            self.of_all_accounts(place, &Command::Sweep { accounts_max: u32::MAX })?;
        let mut answers = Vec::new();
        if let Answer::Swept { accounts } = answer {
            answers.push(format!("swept {accounts}"));
        }
        answers.extend(told);
        Ok(answers)
    }

    /// Gives due jobs to a worker, and notes the leases as that worker's.
    fn lease(&mut self, place: Place, asked: LeaseJobs, worker: &str) -> Result<Answers, Stop> {
        let (answer, mut told) = self.of_all_accounts(place, &Command::LeaseJobs(asked))?;
        let Answer::Leased(leased) = answer else { return Ok(told) };
        for one in &leased {
            self.names.note_lease(worker, &one.account, &one.job);
        }
        told.push(format!("leased {}", leased.len()));
        Ok(told)
    }

    /// Puts a command through a group's log that is of no account, and tells what was written.
    fn of_all_accounts(
        &mut self,
        place: Place,
        command: &Command,
    ) -> Result<(Answer, Answers), Stop> {
        let group = self.groups.entry(place).or_default();
        let (answer, written) = group.apply(command, self.clock)?;
        let mut answers = Vec::new();
        for (number, entry) in &written {
            let Some(book) = group.book_numbered(*number, place) else { continue };
            answers.push(Teller { names: &self.names, book: &book }.entry(entry));
        }
        overspend::check(&self.groups)?;
        Ok((answer, answers))
    }

    fn restart(&mut self, place: Place) -> Result<Answers, Stop> {
        self.groups.entry(place).or_default().restart()?;
        Ok(vec!["restarted".to_owned()])
    }

    fn back_up(&mut self, place: Place) -> Result<Answers, Stop> {
        self.backups.insert(place, self.groups.entry(place).or_default().clone());
        Ok(vec!["backed up".to_owned()])
    }

    /// Puts a group back to its last backup: what came after is lost, all of it if there is none.
    fn restore(&mut self, place: Place) -> Result<Answers, Stop> {
        let mut group = self.backups.get(&place).cloned().unwrap_or_default();
        group.restart()?;
        self.names.retain(place, |book, sequence| {
            group.book(book).is_some_and(|account| sequence <= account.head().sequence)
        });
        self.groups.insert(place, group);
        Ok(vec!["restored".to_owned()])
    }
}

/// Takes the region off a line that begins with one: `eu: balance acme`.
fn place_of(text: &str) -> Result<(Place, &str), LineError> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    match first.strip_suffix(':') {
        Some(region) => Ok((Some(Region::parse(region)?), rest.trim_start())),
        None => Ok((None, text)),
    }
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
        check_unreadable("EU: balance acme", "name may only contain a-z 0-9 -");
        check_unreadable("eu: balance acme", "there is no such account");
        check_unreadable("mode acme eu loose", "mode must be local, strict, frozen or ending");
        check_unreadable("voucher acme eu v1", "there is no such allocation");
        check_unreadable("eu: report acme r1", "there is no such allocation");
        check_unreadable("deliver v1", "there is no such message");
    }

    #[test]
    fn a_batch_is_of_one_account_and_leaves_out_what_cannot_be_read() {
        let (mut player, _) = play(&["open acme", "open beta", "batch acme", "grant acme 5"]);
        let other = "unreadable: the items of a batch must be of one account";
        assert_eq!(player.take("grant beta 5", 5).unwrap(), [other]);
        assert_eq!(player.take("eu: charge acme 5", 5).unwrap(), [other]);
        let question = "unreadable: `balance` is not a command";
        assert_eq!(player.take("balance acme", 6).unwrap(), [question]);
        assert_eq!(player.take("end", 7).unwrap(), ["grant #2 5, granted>available #2=5", "A=5"]);
    }

    #[test]
    fn the_proof_notices_a_log_or_a_history_that_led_elsewhere() {
        let lines = ["open acme", "grant acme 100", "allocate acme eu 40", "voucher acme eu v"];
        let lines = [&lines[..], &["deliver v", "eu: charge acme 5", "charge acme 5"]].concat();
        for place in [None, Some(Region::parse("eu").unwrap())] {
            let (mut player, _) = play(&lines);
            player.prove().unwrap();
            player.groups.get_mut(&place).unwrap().log.pop();
            assert!(matches!(player.prove(), Err(Unproved::Replica)));

            let (mut player, _) = play(&lines);
            let longer = [&lines[..], &["charge acme 6", "eu: charge acme 6"]].concat();
            let history = play(&longer).0.groups.get(&place).unwrap().history.clone();
            player.groups.get_mut(&place).unwrap().history = history;
            assert!(matches!(player.prove(), Err(Unproved::Replica)));
        }
    }

    #[test]
    fn a_region_that_spends_more_than_home_allowed_is_noticed() {
        let story = |overdraft, spent| {
            let lines = ["open acme", "grant acme 40", "allocate acme eu 40"].map(str::to_owned);
            let rest = ["voucher acme eu v".to_owned(), "deliver v".to_owned()];
            let overdraft = format!("overdraft acme eu {overdraft}");
            let charge = format!("eu: charge acme {spent}");
            let lines = [&lines[..], &[overdraft], &rest, &[charge]].concat();
            play(&lines.iter().map(String::as_str).collect::<Vec<_>>()).0
        };
        let (mut player, mut generous) = (story(10, 50), story(11, 51));
        assert!(overspend::check(&player.groups).is_ok());
        let eu = Some(Region::parse("eu").unwrap());
        player.groups.insert(eu, generous.groups.remove(&eu).unwrap());
        let Err(Stop::Violated(violation)) = overspend::check(&player.groups) else { panic!() };
        assert_eq!(violation.number, 13);
    }
}
