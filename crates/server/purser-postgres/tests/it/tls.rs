//! TLS to a real server: who proves nothing is not spoken to.

use purser_postgres::{Authorities, Database, DatabaseError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::secure::{Authority, SecureServer};

/// What comes of the first question to a database.
async fn ask(address: &str, authorities: &Authorities) -> Result<(), DatabaseError> {
    let schema = Database::SCHEMA_DEFAULT;
    Database::vouched_for(address, schema, 2, authorities)?.migrate().await
}

/// The last cause of a refusal.
fn cause(refused: Result<(), DatabaseError>) -> String {
    let error = refused.unwrap_err();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[tokio::test]
async fn a_server_has_to_prove_its_name_if_tls_is_asked_for() {
    let (known, stranger) = (Authority::new("known"), Authority::new("stranger"));
    let server = SecureServer::start(&known);
    let given =
        |authority: &Authority| Authorities::parse(authority.certificate().as_bytes()).unwrap();
    for mode in ["require", "verify-full"] {
        let address = format!("{} sslmode={mode}", server.address("localhost"));
        ask(&address, &given(&known)).await.unwrap();
        let refused = cause(ask(&address, &given(&stranger)).await);
        assert!(refused.contains("invalid peer certificate"), "{mode}: {refused}");
        let refused = cause(ask(&address, &Authorities::Machine).await);
        assert!(refused.contains("invalid peer certificate"), "{mode}: {refused}");
        let other_name = format!("{} sslmode={mode}", server.address("db.example"));
        let refused = cause(ask(&other_name, &given(&known)).await);
        assert!(refused.contains("not valid for name"), "{mode}: {refused}");
    }
    // Encrypted, and not proven: the server takes nobody without TLS.
    ask(&server.address("db.example"), &Authorities::Machine).await.unwrap();
    let plain = format!("{} sslmode=disable", server.address("localhost"));
    let refused = cause(ask(&plain, &Authorities::Machine).await);
    assert!(refused.contains("no encryption"), "{refused}");
}

#[tokio::test]
async fn certificates_that_would_not_count_are_refused() {
    let authority = Authority::new("known").certificate();
    let given = Authorities::parse(authority.as_bytes()).unwrap();
    for mode in ["", " sslmode=prefer", " sslmode=disable"] {
        let refused = ask(&format!("host=localhost user=a{mode}"), &given).await.unwrap_err();
        assert!(refused.to_string().contains("sslmode=verify-full"), "{refused}");
    }
    for nothing in ["", "no certificate"] {
        let refused = Authorities::parse(nothing.as_bytes()).unwrap_err();
        assert!(matches!(refused, DatabaseError::Address(_)), "{refused}");
    }
}

#[tokio::test]
async fn a_server_that_does_without_tls_is_spoken_to_no_further_and_asked_again() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let refusing = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked_for_tls = [0; 8];
        stream.read_exact(&mut asked_for_tls).await.unwrap();
        stream.write_all(b"N").await.unwrap();
        let mut more = Vec::new();
        stream.read_to_end(&mut more).await.unwrap();
        assert!(more.is_empty(), "{more:?}");
    };
    let known = Authority::new("known").certificate();
    let known = Authorities::parse(known.as_bytes()).unwrap();
    let address =
        format!("host=localhost hostaddr=127.0.0.1 port={port} user=a sslmode=verify-full");
    let (refused, ()) = tokio::join!(ask(&address, &known), refusing);
    // Another one may be promoted, or the same come back as it was.
    let refused = refused.unwrap_err();
    assert!(refused.is_transient(), "{refused}");
}
