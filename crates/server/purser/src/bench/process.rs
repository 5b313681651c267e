//! What processes take, read from `/proc`: CPU time and memory.

use std::fs;
use std::io;
use std::time::Duration;

/// In `/proc/self/auxv`: bytes of a page of memory.
const AUXV_PAGE_BYTES: u64 = 6;
/// In `/proc/self/auxv`: clock ticks in a second.
const AUXV_TICKS_PER_SECOND: u64 = 17;

/// Why a figure could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    /// There is no such file: not Linux, or the process has ended.
    #[error("{path} could not be read")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file says something else than expected.
    #[error("{path} is not as expected")]
    Odd {
        /// The file.
        path: String,
    },
}

/// CPU time that the processes have used so far, together.
pub(crate) fn cpu(pids: &[u32]) -> Result<Duration, ProcessError> {
    let mut ticks = 0_u64;
    for pid in pids {
        let path = format!("/proc/{pid}/stat");
        let text = read_text(&path)?;
        let used = ticks_of(&text).ok_or(ProcessError::Odd { path })?;
        ticks = ticks.saturating_add(used);
    }
    let per_second = auxv(AUXV_TICKS_PER_SECOND)?.max(1);
    Ok(Duration::from_micros(ticks.saturating_mul(1_000_000) / per_second))
}

/// Bytes of memory that this process has in use and that are not on disk as well.
pub(crate) fn resident_bytes() -> Result<u64, ProcessError> {
    let path = "/proc/self/statm";
    let text = read_text(path)?;
    let field = |place: usize| text.split_whitespace().nth(place)?.parse::<u64>().ok();
    let (resident, shared) =
        field(1).zip(field(2)).ok_or_else(|| ProcessError::Odd { path: path.to_owned() })?;
    Ok(resident.saturating_sub(shared).saturating_mul(auxv(AUXV_PAGE_BYTES)?))
}

fn read_text(path: &str) -> Result<String, ProcessError> {
    fs::read_to_string(path).map_err(|source| ProcessError::Read { path: path.to_owned(), source })
}

/// User and system time in `/proc/PID/stat`. The program's name stands before them in brackets and
/// may contain anything, so the fields are counted from its end.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    user.checked_add(system)
}

/// A value that the kernel gave this process when it started.
fn auxv(wanted: u64) -> Result<u64, ProcessError> {
    let path = "/proc/self/auxv";
    let bytes =
        fs::read(path).map_err(|source| ProcessError::Read { path: path.to_owned(), source })?;
    let mut words = bytes.chunks_exact(8).map(|word| {
        u64::from_ne_bytes(word.try_into().expect("a chunk of eight bytes has eight bytes"))
    });
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        if name == wanted {
            return Ok(value);
        }
    }
    Err(ProcessError::Odd { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_have_brackets_and_spaces_in_its_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 2 3 4 250 50 0 0 20 0 1 0";
        assert_eq!(ticks_of(stat), Some(300));
    }

    #[test]
    fn this_process_uses_memory_and_has_pages_of_a_known_size() {
        assert!(resident_bytes().unwrap() > 100_000);
        assert!(auxv(AUXV_PAGE_BYTES).unwrap().is_power_of_two());
        assert!(auxv(AUXV_TICKS_PER_SECOND).unwrap() >= 1);
        assert!(cpu(&[std::process::id()]).is_ok());
    }
}
