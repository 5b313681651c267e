//! A PostgreSQL server of one test's own, which can be stopped and started again.
//!
//! Asked with `psql`, so that what a test sees of the tables shares no code with what writes them. The
//! programs are those on the path, or where packages put the newest.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A server, which ends with this value.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    folder: TempDir,
    runs: bool,
}

impl Postgres {
    /// Makes a server and starts it.
    ///
    /// # Panics
    ///
    /// If there is no PostgreSQL on this machine.
    pub fn start() -> Self {
        let programs = programs().expect(
            "there is no PostgreSQL server here: install one (Debian: apt-get install postgresql)",
        );
        let folder = tempfile::Builder::new().prefix("pg").tempdir();
        let folder = folder.expect("a temporary folder can be made");
        if is_superuser() {
            check(Command::new("chown").arg("postgres:postgres").arg(folder.path()));
        }
        let mut server = Self { programs, folder, runs: false };
        let mut make = server.program("initdb");
        make.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N", "-D"]);
        check(make.arg(server.data()));
        server.start_again();
        server
    }

    /// Starts it after a stop.
    pub fn start_again(&mut self) {
        // What is in here does not outlive the test, so nothing needs to reach the disk.
        let options = format!(
            "-c listen_addresses='' -c unix_socket_directories='{}' -c fsync=off \
             -c max_connections=100",
            self.folder.path().display()
        );
        let mut start = self.program("pg_ctl");
        start.arg("-D").arg(self.data()).args(["-w", "-t", "120", "-o", &options, "-l"]);
        check(start.arg(self.folder.path().join("log")).arg("start"));
        self.runs = true;
    }

    /// Stops it: connections are cut off.
    pub fn stop(&mut self) {
        let mut stop = self.program("pg_ctl");
        check(stop.arg("-D").arg(self.data()).args(["-m", "fast", "-w", "stop"]));
        self.runs = false;
    }

    /// Ends it at once, as a crash would, and starts it again: what was committed is still there.
    pub fn crash_and_start_again(&mut self) {
        let mut stop = self.program("pg_ctl");
        check(stop.arg("-D").arg(self.data()).args(["-m", "immediate", "-w", "stop"]));
        self.runs = false;
        self.start_again();
    }

    /// Where programs reach it.
    pub fn address(&self) -> String {
        format!("host={} user=postgres dbname=postgres", self.folder.path().display())
    }

    /// What a statement answers: a line for each row, columns with `|` between them.
    ///
    /// # Panics
    ///
    /// If the server refuses it.
    pub fn ask(&self, statement: &str) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", &self.address()]);
        check(psql.args(["-c", statement])).trim().to_owned()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A program as who may run a server: not the superuser of the machine.
    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        if !is_superuser() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.runs {
            let mut stop = self.program("pg_ctl");
            stop.arg("-D").arg(self.data()).args(["-m", "immediate", "-w", "stop"]);
            let stopped = stop.stdout(Stdio::null()).stderr(Stdio::null()).status();
            if stopped.is_err() {
                eprintln!("the database of a test could not be stopped");
            }
        }
    }
}

fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path);
    let packaged = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut packaged: Vec<PathBuf> = packaged.map(|it| it.path().join("bin")).collect();
    packaged.sort();
    // A link on the path may stand alone, without the programs that lie beside its target.
    let mut found = on_path
        .chain(packaged.into_iter().rev())
        .filter_map(|folder| folder.join("initdb").canonicalize().ok());
    found.find_map(|initdb| initdb.parent().map(Path::to_owned))
}

fn is_superuser() -> bool {
    rustix::process::geteuid().is_root()
}

fn check(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {printed}{told}");
    printed
}
