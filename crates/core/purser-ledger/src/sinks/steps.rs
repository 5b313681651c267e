//! How webhooks change.

use std::sync::Arc;

use purser_types::{CowMap, LogTime, OperationId, Position, SinkName, Span};

use super::command::{Advance, ChangedLetter, ChangedLine};
use super::{
    Disabled, EntryName, LetterChange, NOTES_MAX, NotedAct, REDRIVES_MAX, RedriveAll, RedriveTally,
    RedriveTold, Redriven, SECRETS_MAX, SINKS_MAX, Sink, SinkAct, SinkCommand, SinkDone, SinkNote,
    SinkRefusal, SinkSecret, SinkTerms, Sinks,
};

/// When and by what a command takes effect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// The log's time.
    pub(crate) now: LogTime,
    /// The command's own name.
    pub(crate) operation: OperationId,
}

/// Applies a command.
pub(crate) fn apply(
    sinks: &mut Sinks,
    command: &SinkCommand,
    moment: Moment,
) -> Result<SinkDone, SinkRefusal> {
    let done = act(sinks, command, moment)?;
    let redrove_none = done.tally.is_some_and(|tally| tally.redriven == 0);
    if done.is_changed
        && !redrove_none
        && let Some(note) = note_of(command, moment.now)
        && let Some(sink) = sinks.get_mut(&command.sink)
    {
        Arc::make_mut(sink).note(note);
    }
    Ok(done)
}

/// Disables all webhooks, those too that were disabled for another reason: that one is told behind `why`,
/// which is told once however often this happens.
pub(crate) fn disable_all(sinks: &mut Sinks, why: &str, now: LogTime) {
    for sink in sinks.values_mut() {
        let sink = Arc::make_mut(sink);
        let why: Box<str> = match sink.disabled.take().map(|before| before.why) {
            Some(before) if before.starts_with(why) => before,
            Some(before) => format!("{why}; before that: {before}").into(),
            None => why.into(),
        };
        sink.disable(&why, now);
        sink.note(SinkNote {
            at: now,
            act: NotedAct::Disable,
            actor: None,
            reason: Some(why),
            event: None,
        });
    }
}

/// What is remembered of a command: not how far its leader has come, unless that is the end.
fn note_of(command: &SinkCommand, now: LogTime) -> Option<SinkNote> {
    let SinkCommand { act, actor, reason, .. } = command;
    let (noted, why, event) = match act {
        SinkAct::Create { .. } => (NotedAct::Create, reason, None),
        SinkAct::Rotate { .. } => (NotedAct::Rotate, reason, None),
        SinkAct::Enable => (NotedAct::Enable, reason, None),
        SinkAct::Disable { .. } => (NotedAct::Disable, reason, None),
        SinkAct::Redrive(event) => (NotedAct::Redrive, reason, Some(event)),
        SinkAct::RedriveAll(_) => (NotedAct::RedriveAll, reason, None),
        SinkAct::Discard { event, .. } => (NotedAct::Discard, reason, Some(event)),
        SinkAct::Advance(Advance { disable, .. }) if disable.is_some() => {
            (NotedAct::Disable, disable, None)
        }
        SinkAct::Advance(_) | SinkAct::Remove => return None,
    };
    let (actor, reason, event) = (actor.clone(), why.clone(), event.cloned());
    Some(SinkNote { at: now, act: noted, actor, reason, event })
}

fn act(sinks: &mut Sinks, command: &SinkCommand, moment: Moment) -> Result<SinkDone, SinkRefusal> {
    let name = &command.sink;
    match &command.act {
        SinkAct::Create { terms, secret, from } => {
            create(sinks, name, (terms, secret, *from), moment)
        }
        SinkAct::Remove => {
            let is_changed = sinks.remove(name).is_some();
            Ok(SinkDone { step: OperationId::default(), is_changed, tally: None })
        }
        SinkAct::Rotate { secret, overlap } => {
            try_change(sinks, name, |sink| sink.rotate(secret, *overlap, moment.now))
        }
        SinkAct::Enable => change(sinks, name, |sink| sink.enable(moment)),
        SinkAct::Disable { why } => change(sinks, name, |sink| sink.disable(why, moment.now)),
        SinkAct::Redrive(event) => change(sinks, name, |sink| sink.redrive(event, moment.now)),
        SinkAct::RedriveAll(asked) => redrive_all(sinks, name, asked, moment.now),
        SinkAct::Discard { event, died_at } => {
            let sink = sinks.get(name).ok_or(SinkRefusal::Unknown)?;
            if sink.letter(event).is_some_and(|(letter, _)| letter.died_at != *died_at) {
                return Err(SinkRefusal::OtherLetter);
            }
            change(sinks, name, |sink| {
                let letter = sink.letters.remove(event).is_some();
                sink.redriven.remove(event).is_some() || letter
            })
        }
        SinkAct::Advance(advance) => {
            let sink = sinks.get(name).ok_or(SinkRefusal::Unknown)?;
            if sink.step != advance.after {
                return Err(SinkRefusal::OtherStep);
            }
            change(sinks, name, |sink| {
                sink.advance(advance, moment);
                true
            })
        }
    }
}

fn create(
    sinks: &mut Sinks,
    name: &SinkName,
    (terms, secret, from): (&SinkTerms, &str, Position),
    Moment { now, operation }: Moment,
) -> Result<SinkDone, SinkRefusal> {
    if let Some(sink) = sinks.get(name) {
        let is_same =
            sink.terms == *terms && sink.secrets.first().is_some_and(|it| *it.text == *secret);
        let done = SinkDone { step: sink.step, is_changed: false, tally: None };
        return if is_same { Ok(done) } else { Err(SinkRefusal::Exists) };
    }
    if sinks.len() >= SINKS_MAX {
        return Err(SinkRefusal::TooMany);
    }
    let sink = Sink {
        terms: terms.clone(),
        secrets: vec![SinkSecret { text: secret.into(), until: None }],
        created_at: now,
        disabled: None,
        step: operation,
        cursor: from,
        lines: CowMap::default(),
        letters: CowMap::default(),
        redriven: CowMap::default(),
        redrives: Vec::new(),
        notes: Vec::new(),
    };
    sinks.insert(name.clone(), Arc::new(sink));
    Ok(SinkDone { step: operation, is_changed: true, tally: None })
}

/// Redrives many dead letters, unless that was done under the same key before.
fn redrive_all(
    sinks: &mut Sinks,
    name: &SinkName,
    asked: &RedriveAll,
    now: LogTime,
) -> Result<SinkDone, SinkRefusal> {
    let sink = sinks.get_mut(name).ok_or(SinkRefusal::Unknown)?;
    let step = sink.step;
    if let Some(told) = sink.redrives.iter().find(|told| told.asked.key == asked.key) {
        let done = SinkDone { step, is_changed: false, tally: Some(told.tally) };
        return if told.asked == *asked { Ok(done) } else { Err(SinkRefusal::OtherRedrive) };
    }
    let tally = Some(Arc::make_mut(sink).redrive_all(asked, now));
    Ok(SinkDone { step, is_changed: true, tally })
}

/// Changes a webhook that is there. `change` says whether it did anything.
fn change(
    sinks: &mut Sinks,
    name: &SinkName,
    change: impl FnOnce(&mut Sink) -> bool,
) -> Result<SinkDone, SinkRefusal> {
    try_change(sinks, name, |sink| Ok(change(sink)))
}

/// The same, for what may be refused. Then it has changed nothing.
fn try_change(
    sinks: &mut Sinks,
    name: &SinkName,
    change: impl FnOnce(&mut Sink) -> Result<bool, SinkRefusal>,
) -> Result<SinkDone, SinkRefusal> {
    let sink = Arc::make_mut(sinks.get_mut(name).ok_or(SinkRefusal::Unknown)?);
    let is_changed = change(sink)?;
    Ok(SinkDone { step: sink.step, is_changed, tally: None })
}

impl Sink {
    /// A secret that was to sign for a while does so, however often others follow it. Without an overlap
    /// all before end: whoever knows one may have seen the others.
    fn rotate(&mut self, secret: &str, overlap: Span, now: LogTime) -> Result<bool, SinkRefusal> {
        if self.secrets.first().is_some_and(|newest| *newest.text == *secret) {
            return Ok(false);
        }
        let end = now.saturating_add(overlap);
        let is_kept = |before: &SinkSecret| {
            let until = before.until.unwrap_or(end);
            overlap != Span::ZERO && now < until && *before.text != *secret
        };
        let kept = self.secrets.iter().filter(|before| is_kept(before));
        let kept = kept.map(|before| SinkSecret {
            text: before.text.clone(),
            until: Some(before.until.unwrap_or(end)),
        });
        let newest = SinkSecret { text: secret.into(), until: None };
        let secrets: Vec<_> = std::iter::once(newest).chain(kept).collect();
        if secrets.len() > SECRETS_MAX {
            return Err(SinkRefusal::TooManySecrets);
        }
        self.secrets = secrets;
        Ok(true)
    }

    /// A redrive of all goes through many pages, which are one act: they leave room for others.
    fn note(&mut self, note: SinkNote) {
        let is_page_of = |last: &SinkNote| {
            let acts = (last.act, note.act);
            acts == (NotedAct::RedriveAll, NotedAct::RedriveAll)
                && (&last.actor, &last.reason) == (&note.actor, &note.reason)
        };
        if self.notes.last().is_some_and(is_page_of) {
            self.notes.pop();
        }
        push_bounded(&mut self.notes, note, NOTES_MAX);
    }

    /// Whoever mends a receiver wants to see at once whether it is well: nothing waits any longer.
    fn enable(&mut self, moment: Moment) -> bool {
        if self.disabled.take().is_none() {
            return false;
        }
        let lines: Vec<_> = self.lines.iter().map(|(account, _)| account.clone()).collect();
        for account in lines {
            if let Some(line) = self.lines.get_mut(&account) {
                line.due = moment.now;
            }
        }
        let redriven: Vec<_> = self.redriven.iter().map(|(event, _)| event.clone()).collect();
        for event in redriven {
            if let Some(redriven) = self.redriven.get_mut(&event) {
                redriven.due = moment.now;
            }
        }
        // Whoever knows it from before begins anew.
        self.step = moment.operation;
        true
    }

    fn disable(&mut self, why: &str, now: LogTime) -> bool {
        let is_changed = self.disabled.is_none();
        self.disabled.get_or_insert_with(|| Disabled { why: why.into(), since: now });
        is_changed
    }

    fn redrive(&mut self, event: &EntryName, now: LogTime) -> bool {
        let Some(letter) = self.letters.remove(event) else { return false };
        self.redriven.insert(event.clone(), Redriven { letter, attempts: 0, due: now });
        true
    }

    fn redrive_all(&mut self, asked: &RedriveAll, now: LogTime) -> RedriveTally {
        let next = now.saturating_add(Span::from_micros(1));
        let died_before = asked.died_before.unwrap_or(next);
        let theirs = self.letters.iter().filter(|(_, letter)| letter.died_at < died_before);
        let mut theirs = theirs.map(|(event, _)| event.clone());
        let limit = usize::try_from(asked.limit).unwrap_or(usize::MAX);
        let events: Vec<_> = theirs.by_ref().take(limit).collect();
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let (redriven, left) = (count(events.len()), count(theirs.count()));
        for event in &events {
            self.redrive(event, now);
        }
        let tally = RedriveTally { redriven, left, died_before };
        let told = RedriveTold { asked: asked.clone(), tally };
        push_bounded(&mut self.redrives, told, REDRIVES_MAX);
        tally
    }

    fn advance(&mut self, advance: &Advance, Moment { now, operation }: Moment) {
        self.step = operation;
        self.cursor = advance.cursor;
        for ChangedLine { account, line } in &advance.lines {
            match line {
                Some(line) => self.lines.insert(account.clone(), line.clone()),
                None => self.lines.remove(account),
            };
        }
        for ChangedLetter { event, change } in &advance.letters {
            self.change_letter(event, change);
        }
        if let Some(why) = &advance.disable {
            self.disable(why, now);
        }
    }

    /// What an operator has discarded meanwhile stays so.
    fn change_letter(&mut self, event: &EntryName, change: &LetterChange) {
        match change {
            LetterChange::Died(letter) => {
                self.letters.insert(event.clone(), letter.clone());
            }
            LetterChange::Settled => {
                self.redriven.remove(event);
            }
            LetterChange::Tried { attempts, due } => {
                if let Some(redriven) = self.redriven.get_mut(event) {
                    (redriven.attempts, redriven.due) = (*attempts, *due);
                }
            }
            LetterChange::DiedAgain(letter) => {
                if self.redriven.remove(event).is_some() {
                    self.letters.insert(event.clone(), letter.clone());
                }
            }
        }
    }
}

/// Adds to a list that forgets its oldest.
fn push_bounded<T>(list: &mut Vec<T>, item: T, most: usize) {
    if list.len() >= most {
        list.remove(0);
    }
    list.push(item);
}
