//! A real PostgreSQL server: the one that `PURSER_TEST_POSTGRES` names, else one that is started.
//!
//! Tests may run in one process or each in its own, so a server that is started is shared through files in
//! a folder: who uses it holds a lock on `users`, and a keeper waits for that lock alone and then ends the
//! server. So it ends with the last test, however that ended.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use purser_postgres::Database;
use tokio_postgres::{Client, NoTls};

/// Where a server can be reached, without the name of a database.
static SERVER: OnceLock<Server> = OnceLock::new();

static DATABASES: AtomicU32 = AtomicU32::new(0);

struct Server {
    address: String,
    /// Held for as long as this process lives.
    _users: Option<File>,
}

/// A database of one test, which goes with it.
pub(crate) struct TestDatabase {
    /// As libpq takes it.
    pub(crate) address: String,
    name: String,
}

impl TestDatabase {
    /// An empty database.
    pub(crate) async fn empty() -> Self {
        let server = SERVER.get_or_init(server);
        let number = DATABASES.fetch_add(1, Ordering::Relaxed);
        let name = format!("purser_test_{}_{number}", std::process::id());
        let client = connect(&format!("{} dbname=postgres", server.address)).await;
        let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
        client.batch_execute(&drop).await.unwrap();
        let create = format!("CREATE DATABASE {name} TEMPLATE template0");
        client.batch_execute(&create).await.unwrap();
        Self { address: format!("{} dbname={name}", server.address), name }
    }

    /// A database with the tables, and the read model in it.
    pub(crate) async fn migrated() -> (Self, Database) {
        let database = Self::empty().await;
        let read_model = database.read_model();
        read_model.migrate().await.unwrap();
        (database, read_model)
    }

    /// The read model in it.
    pub(crate) fn read_model(&self) -> Database {
        Database::at(&self.address, Database::SCHEMA_DEFAULT, 4).unwrap()
    }

    /// A connection that sees the read model's tables.
    pub(crate) async fn client(&self) -> Client {
        let client = connect(&self.address).await;
        client.batch_execute("SET search_path = purser; SET timezone = 'UTC'").await.unwrap();
        client
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let server = SERVER.get().expect("the database was made on it");
        let address = format!("{} dbname=postgres", server.address);
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                connect(&address).await.batch_execute(&drop).await.unwrap();
            });
        });
        // A test that fails already must not fail twice.
        if dropping.join().is_err() && !std::thread::panicking() {
            panic!("the database could not be removed");
        }
    }
}

async fn connect(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    super::in_background(async move {
        // It ends with the client, or with the server: whoever asks next hears of it.
        connection.await.unwrap_or_default();
    });
    client
}

fn server() -> Server {
    if let Ok(address) = std::env::var("PURSER_TEST_POSTGRES") {
        return Server { address, _users: None };
    }
    let folder = shared_folder();
    fs::create_dir_all(&folder).unwrap();
    let users = open(&folder.join("users"));
    users.lock_shared().unwrap();
    let starting = open(&folder.join("starting"));
    starting.lock().unwrap();
    let programs = programs().expect(
        "there is no PostgreSQL server here: install one (Debian: apt-get install postgresql), or \
         name one in PURSER_TEST_POSTGRES, for example `host=localhost user=postgres`",
    );
    if !is_running(&programs, &folder.join("data")) {
        start(&programs, &folder);
    }
    let address = format!("host={} user=postgres", folder.display());
    Server { address, _users: Some(users) }
}

/// One folder for each target folder: another checkout has a server of its own. Its path is short, because
/// that of a socket has to be.
fn shared_folder() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_TARGET_TMPDIR").hash(&mut hasher);
    std::env::temp_dir().join(format!("purser-postgres-{:016x}", hasher.finish()))
}

fn open(path: &Path) -> File {
    File::options().create(true).append(true).open(path).unwrap()
}

/// The folder of the server's programs: where those on the path lie, or where packages put the newest.
pub(super) fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path);
    let packaged = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut packaged: Vec<PathBuf> = packaged.map(|it| it.path().join("bin")).collect();
    packaged.sort();
    let folders = on_path.chain(packaged.into_iter().rev());
    // A link on the path may stand alone, without the programs that lie beside its target.
    let mut found = folders.filter_map(|folder| folder.join("initdb").canonicalize().ok());
    found.find_map(|initdb| initdb.parent().map(Path::to_owned))
}

/// A command as who may run a server: not the superuser of the machine.
pub(super) fn as_owner(program: &Path) -> Command {
    if !is_superuser() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
    command
}

pub(super) fn is_superuser() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}

fn is_running(programs: &Path, data: &Path) -> bool {
    let mut status = as_owner(&programs.join("pg_ctl"));
    status.arg("-D").arg(data).arg("status").stdout(Stdio::null()).stderr(Stdio::null());
    status.status().unwrap().success()
}

#[expect(clippy::zombie_processes, reason = "the keeper ends after whoever has started it")]
fn start(programs: &Path, folder: &Path) {
    if is_superuser() {
        run(Command::new("chown").arg("postgres:postgres").arg(folder));
    }
    let data = folder.join("data");
    // What a server has left that was killed.
    if data.exists() {
        fs::remove_dir_all(&data).unwrap();
    }
    let mut make = as_owner(&programs.join("initdb"));
    make.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N", "-D"]).arg(&data);
    run(&mut make);
    // Nothing in here outlives the tests, so nothing needs to reach the disk.
    let options = format!(
        "-c listen_addresses='' -c unix_socket_directories='{}' -c fsync=off \
         -c synchronous_commit=off -c full_page_writes=off -c max_connections=200",
        folder.display()
    );
    let mut start = as_owner(&programs.join("pg_ctl"));
    start.arg("-D").arg(&data).args(["-w", "-t", "120", "-o", &options, "-l"]);
    run(start.arg(folder.join("log")).arg("start"));
    let stop = "\"$1\"/pg_ctl -D \"$2\" -m immediate -w stop; rm -rf \"$2\"";
    let mut keeper = as_owner(Path::new("flock"));
    keeper.arg("-x").arg(folder.join("users")).args(["sh", "-c", stop, "sh"]);
    keeper.arg(programs).arg(&data).process_group(0);
    keeper.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
}

pub(super) fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
