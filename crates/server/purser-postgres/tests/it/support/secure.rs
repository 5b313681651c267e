//! A server of one test's own that is reached by TCP, and refuses whoever does not speak TLS.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

use super::server::{as_owner, is_superuser, programs, run};

/// Somebody who vouches for servers.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its certificate in PEM.
    pub(crate) fn certificate(&self) -> String {
        self.0.pem()
    }
}

/// See the module's documentation. It ends with this value.
pub(crate) struct SecureServer {
    programs: PathBuf,
    folder: TempDir,
    port: u16,
}

impl SecureServer {
    /// A server with the name `localhost`, for which `authority` vouches.
    pub(crate) fn start(authority: &Authority) -> Self {
        let programs = programs().expect("there is no PostgreSQL server here: install one");
        let folder = TempDir::new().unwrap();
        // Nobody else asks for a port that was given out just now.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let server = Self { programs, folder, port };
        let own = |path: PathBuf| {
            if is_superuser() {
                run(std::process::Command::new("chown").arg("postgres:postgres").arg(path));
            }
        };
        own(server.folder.path().to_owned());
        let data = server.data();
        let mut make = as_owner(&server.programs.join("initdb"));
        make.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N", "-D"]);
        run(make.arg(&data));
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority.0).unwrap();
        fs::write(data.join("server.crt"), certificate.pem()).unwrap();
        fs::write(data.join("server.key"), key.serialize_pem()).unwrap();
        run(std::process::Command::new("chmod").arg("600").arg(data.join("server.key")));
        fs::write(data.join("pg_hba.conf"), "hostssl all all 127.0.0.1/32 trust\n").unwrap();
        for file in ["server.crt", "server.key"] {
            own(data.join(file));
        }
        let options = format!(
            "-c listen_addresses=127.0.0.1 -c port={port} -c ssl=on -c fsync=off \
             -c unix_socket_directories=''"
        );
        let mut start = as_owner(&server.programs.join("pg_ctl"));
        start.arg("-D").arg(&data).args(["-w", "-t", "120", "-o", &options, "-l"]);
        run(start.arg(server.folder.path().join("log")).arg("start"));
        server
    }

    /// Where it is reached, by one of its names.
    pub(crate) fn address(&self, name: &str) -> String {
        let port = self.port;
        format!("host={name} hostaddr=127.0.0.1 port={port} user=postgres dbname=postgres")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

impl Drop for SecureServer {
    fn drop(&mut self) {
        let mut stop = as_owner(&self.programs.join("pg_ctl"));
        stop.arg("-D").arg(self.data()).args(["-m", "immediate", "-w", "stop"]);
        stop.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    }
}
