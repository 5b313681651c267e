//! Everything this program prints.
//!
//! Answers go to standard output: tables for people, JSON for programs (`--json`). Notes and
//! progress go to standard error, so that an answer can be piped on. Nothing else in this crate
//! prints; logs are `tracing`'s business.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde::Serialize;

/// For whom answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text and tables.
    People,
    /// JSON, as the API has it.
    Programs,
}

/// Where the program prints.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    format: Format,
    bars: MultiProgress,
}

impl Output {
    /// Prints for `format`.
    pub(crate) fn new(format: Format) -> Self {
        Self { format, bars: MultiProgress::new() }
    }

    /// For whom answers are written.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Writes a line of an answer.
    pub(crate) fn line(&self, text: impl Display) -> io::Result<()> {
        self.bars.suspend(|| writeln!(io::stdout().lock(), "{text}"))
    }

    /// Writes an answer as JSON, whatever the format.
    pub(crate) fn json(&self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
        self.line(text)
    }

    /// Writes an answer: JSON for programs, for people what `render` makes of it.
    pub(crate) fn answer<T: Serialize>(
        &self,
        value: &T,
        render: impl FnOnce(&T) -> String,
    ) -> io::Result<()> {
        match self.format {
            Format::People => self.line(render(value)),
            Format::Programs => self.json(value),
        }
    }

    /// Tells the person at the terminal something that is not part of the answer.
    pub(crate) fn note(&self, text: impl Display) {
        let written = self.bars.suspend(|| writeln!(io::stderr().lock(), "{text}"));
        if written.is_err() {
            // Nobody reads notes any more, and there is nobody to tell; the answer still counts.
        }
    }

    /// Shows how far a long piece of work has come: a bar on a terminal, otherwise a plain line
    /// every few seconds. Without a `total`, only the count is shown.
    pub(crate) fn progress(&self, label: &str, total: Option<u64>) -> Progress {
        let shape = if io::stderr().is_terminal() {
            let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
            bar.set_style(style(total));
            bar.set_prefix(label.to_owned());
            Shape::Bar(self.bars.add(bar))
        } else {
            let state = PlainState { done: 0, detail: String::new(), told: Instant::now() };
            Shape::Plain { label: label.to_owned(), total, state: Mutex::new(state) }
        };
        Progress { shape, output: self.clone() }
    }
}

fn style(total: Option<u64>) -> ProgressStyle {
    let template = if total.is_some() {
        "{prefix} {wide_bar} {human_pos}/{human_len} {eta} {msg}"
    } else {
        "{prefix} {spinner} {human_pos} {msg}"
    };
    ProgressStyle::with_template(template).expect("the template is well formed")
}

/// How far a long piece of work has come.
#[derive(Debug)]
pub(crate) struct Progress {
    shape: Shape,
    output: Output,
}

#[derive(Debug)]
enum Shape {
    Bar(ProgressBar),
    Plain { label: String, total: Option<u64>, state: Mutex<PlainState> },
}

#[derive(Debug)]
struct PlainState {
    done: u64,
    detail: String,
    told: Instant,
}

impl Progress {
    /// Pause between two plain lines: often enough to see that it lives, seldom enough for a log.
    const PLAIN_PAUSE: Duration = Duration::from_secs(5);

    /// So much more is done.
    pub(crate) fn advance(&self, by: u64) {
        match &self.shape {
            Shape::Bar(bar) => bar.inc(by),
            Shape::Plain { label, total, state } => {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                state.done = state.done.saturating_add(by);
                if state.told.elapsed() >= Self::PLAIN_PAUSE {
                    state.told = Instant::now();
                    self.output.note(plain_line(label, *total, state.done, &state.detail));
                }
            }
        }
    }

    /// Replaces the words behind the numbers.
    pub(crate) fn detail(&self, text: impl Display) {
        match &self.shape {
            Shape::Bar(bar) => bar.set_message(text.to_string()),
            Shape::Plain { state, .. } => {
                state.lock().unwrap_or_else(PoisonError::into_inner).detail = text.to_string();
            }
        }
    }

    /// Ends the display and leaves one line.
    pub(crate) fn finish(self, text: impl Display) {
        match &self.shape {
            Shape::Bar(bar) => {
                bar.finish_and_clear();
                self.output.note(format_args!("{}: {text}", bar.prefix()));
            }
            Shape::Plain { label, .. } => self.output.note(format_args!("{label}: {text}")),
        }
    }
}

fn plain_line(label: &str, total: Option<u64>, done: u64, detail: &str) -> String {
    let count = match total {
        Some(total) => format!("{done}/{total}"),
        None => done.to_string(),
    };
    if detail.is_empty() {
        format!("{label}: {count}")
    } else {
        format!("{label}: {count}, {detail}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_says_what_and_how_far() {
        assert_eq!(plain_line("replay", Some(20), 5, "3 refused"), "replay: 5/20, 3 refused");
        assert_eq!(plain_line("audit", None, 5, ""), "audit: 5");
    }
}
