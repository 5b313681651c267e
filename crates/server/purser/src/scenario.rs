//! `purser scenario`: plays a transcript of commands against a ledger in memory.
//!
//! For teaching, and for support: a tenant's story, written down as commands at stated log times,
//! shows what the rules make of it. The same files are the ledger's own tests.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::CommandError;
use crate::output::Output;

/// Play a transcript against a ledger in memory, and print it with the answers.
///
/// One command a line: `open acme`, `grant acme 100`, `authorize acme 40 hold=h1`, `capture h1 25`,
/// `@ 10s` sets the log's clock. Lines that start with `>` are answers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The transcript; `-` is standard input.
    file: PathBuf,
    /// Compare the answers with those in the file, and print only what differs. Exit code 1 if
    /// anything does.
    #[arg(long)]
    check: bool,
}

/// Plays a transcript.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), CommandError> {
    let name = args.file.display();
    let transcript = read(&args.file)
        .map_err(|error| CommandError::broken(format!("{name} could not be read"), error))?;
    let played = purser_ledger::scenario::play(&transcript)
        .map_err(|error| CommandError::broken(format!("{name} could not be played"), error))?;
    if !args.check {
        let played = Played { transcript: played.trim_end().lines().collect() };
        output.answer(&played, |played| played.transcript.join("\n"))?;
        return Ok(());
    }
    match first_difference(&transcript, &played) {
        None => output.answer(&AsWritten { as_written: true }, |_as_written| {
            format!("{name}: every answer is as written")
        })?,
        Some(difference) => return Err(CommandError::Failed(format!("{name}: {difference}"))),
    }
    Ok(())
}

/// A transcript with its answers.
#[derive(Debug, Serialize)]
struct Played<'a> {
    /// Its lines.
    transcript: Vec<&'a str>,
}

/// What there is to say if nothing differs.
#[derive(Debug, Serialize)]
struct AsWritten {
    as_written: bool,
}

fn read(file: &Path) -> std::io::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text)?;
        Ok(text)
    } else {
        std::fs::read_to_string(file)
    }
}

/// Where two transcripts differ first, in words.
fn first_difference(written: &str, played: &str) -> Option<String> {
    let nothing = "nothing";
    let (mut written, mut played) = (written.lines(), played.lines());
    for line in 1.. {
        let pair = (written.next(), played.next());
        if pair == (None, None) {
            break;
        }
        if let (written, played) = pair
            && written != played
        {
            let (written, played) = (written.unwrap_or(nothing), played.unwrap_or(nothing));
            return Some(format!("line {line} says\n  {written}\nand the ledger says\n  {played}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_told_with_its_line() {
        assert_eq!(first_difference("a\n> 1\n", "a\n> 1\n"), None);
        let difference = first_difference("a\n> 1\nb\n", "a\n> 2\nb\n").unwrap();
        assert!(difference.contains("line 2"), "{difference}");
        assert!(first_difference("a\n", "a\n> 1\n").unwrap().contains("nothing"));
    }
}
