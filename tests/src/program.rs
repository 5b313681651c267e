//! The `purser` program: where it is, running it to its end, and keeping it running.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::wait::wait_for;

/// How long a program that ends by itself may take.
const RUN_DEADLINE: Duration = Duration::from_secs(120);

/// The program under test, which lies beside the test programs.
///
/// # Panics
///
/// If it was not built. Test runners build test programs only; `cargo xtask test` builds both.
pub fn purser() -> PathBuf {
    let this = std::env::current_exe().expect("a test program knows where it lies");
    // target/debug/deps/it-… and target/debug/purser.
    let folder = this.parent().and_then(Path::parent).expect("it lies two folders deep");
    let program = folder.join(format!("purser{}", std::env::consts::EXE_SUFFIX));
    assert!(
        program.is_file(),
        "{} is missing: run `cargo xtask test`, or build it with `cargo build -p purser`",
        program.display()
    );
    program
}

/// A program that ran to its end.
#[derive(Debug)]
pub struct Ended {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What it answered.
    pub stdout: String,
    /// What it told beside.
    pub stderr: String,
}

impl Ended {
    /// Fails unless the program ended with this code.
    #[track_caller]
    pub fn check_code(&self, expected: i32) -> &Self {
        assert_eq!(self.code, Some(expected), "{self:#?}");
        self
    }

    /// All that was printed, in no particular order.
    pub fn printed(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// Runs `purser` with arguments and variables to its end.
pub async fn run<I>(arguments: I, variables: &[(&str, &str)]) -> Ended
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let mut command = tokio::process::Command::new(purser());
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).env_remove("RUST_LOG").kill_on_drop(true);
    let mut child = command.spawn().expect("the program starts");
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let end = async {
        let ended = tokio::time::timeout(RUN_DEADLINE, child.wait()).await;
        if ended.is_err() {
            child.kill().await.expect("it was not waited for");
        }
        ended.ok().map(|status| status.expect("it was not waited for"))
    };
    let (status, stdout, stderr) = tokio::join!(end, read(stdout), read(stderr));
    let printed = || format!("it did not end within {RUN_DEADLINE:?}, and said:\n{stdout}{stderr}");
    assert!(status.is_some(), "{}", printed());
    let code = status.and_then(|status| status.code());
    Ended { code, stdout, stderr }
}

/// All that comes out of a pipe.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    pipe.expect("it is a pipe").read_to_end(&mut bytes).await.expect("the pipe can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A running `purser`, killed at the latest when it is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    output: PathBuf,
}

impl Running {
    /// Starts `purser`. All it prints is appended to the file `output`.
    pub fn start<I>(arguments: I, output: &Path) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        let open = || OpenOptions::new().create(true).append(true).open(output);
        let [stdout, stderr] = [open(), open()].map(|file| file.expect("the output file opens"));
        let mut command = Command::new(purser());
        command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let child = command.spawn().expect("the program starts");
        Self { child, output: output.to_owned() }
    }

    /// Sends a signal to this process and to no other.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the process is ours and was not waited for");
    }

    /// Freezes the process in the middle of whatever it does (SIGSTOP), and waits until it stands
    /// still: until then its threads may answer once more.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let changed =
            waitpid(Some(self.pid()), WaitOptions::UNTRACED).expect("the process is ours");
        let (_, status) = changed.expect("it was waited for");
        assert!(status.stopped(), "it ended instead: {status:?}");
    }

    /// Ends the process as a power cut would, and waits until it is gone.
    pub fn kill(mut self) {
        self.end_now();
    }

    /// How the process ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the process is ours")
    }

    /// Waits until the process has ended by itself.
    pub async fn wait_for_end(mut self, deadline: Duration) -> ExitStatus {
        wait_for("the process ends", deadline, async || self.ended()).await
    }

    /// All that the processes of this output file have printed so far.
    pub fn printed(&self) -> String {
        printed(&self.output)
    }

    fn pid(&self) -> Pid {
        let id = i32::try_from(self.child.id()).expect("a process id is small");
        Pid::from_raw(id).expect("a process id is not 0")
    }

    fn end_now(&mut self) {
        // Both fail only if the process has ended and was waited for, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end_now();
    }
}

/// The text of an output file; empty if there is none yet.
pub(crate) fn printed(output: &Path) -> String {
    std::fs::read(output)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}
