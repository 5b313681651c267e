//! Where the service is, who asks, and what its answers mean for the process.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use purser_api::{Cursor, List};
use purser_client::{Admin, AdminAccount, Answer, Call, Client, ClientError, ClientSettings};
use purser_types::{TenantId, Unit};
use serde::Serialize;

use super::arguments;
use crate::cli::SECONDS_MAX;
use crate::dev::DEV_TOKEN;
use crate::failure::CommandError;
use crate::output::{Format, Output};

/// The variable that holds the token, so that it stands in no list of processes.
const TOKEN_VARIABLE: &str = "PURSER_TOKEN";

/// Where the service is and who asks. The token comes from `--token-file` or from PURSER_TOKEN; a
/// service on this machine is asked with the token `dev` otherwise.
#[derive(Debug, Args)]
pub(crate) struct Connection {
    /// Where the service is; several nodes of one region are separated by commas.
    #[arg(
        long,
        global = true,
        help_heading = "Connection",
        env = "PURSER_URL",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7700"
    )]
    url: Vec<String>,
    /// File that holds the token. Without it, the token is that of the variable PURSER_TOKEN, or
    /// `dev` if the service is on this machine.
    #[arg(long, global = true, help_heading = "Connection", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How long to try, in seconds.
    #[arg(
        long,
        global = true,
        help_heading = "Connection",
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX),
    )]
    timeout: u64,
}

impl Connection {
    /// Makes a client. Nothing is sent yet.
    pub(super) fn open(&self) -> Result<Service, CommandError> {
        let mut settings = ClientSettings::new(self.url.iter(), self.token()?);
        settings.call_time = Duration::from_secs(self.timeout);
        let client = Client::from_settings(&settings);
        let client = client.map_err(|error| CommandError::Usage(error.to_string()))?;
        Ok(Service { client })
    }

    fn token(&self) -> Result<String, CommandError> {
        if let Some(file) = &self.token_file {
            let text = std::fs::read_to_string(file).map_err(|error| {
                CommandError::broken(format!("{} could not be read", file.display()), error)
            })?;
            return Ok(text.trim().to_owned());
        }
        match std::env::var(TOKEN_VARIABLE) {
            Ok(token) => Ok(token),
            Err(std::env::VarError::NotUnicode(_)) => {
                Err(CommandError::Usage(format!("{TOKEN_VARIABLE} is no text")))
            }
            Err(std::env::VarError::NotPresent) => self.token_of_this_machine(),
        }
    }

    /// The token of a development cluster, which nobody else must be sent.
    fn token_of_this_machine(&self) -> Result<String, CommandError> {
        if self.url.iter().all(|url| is_loopback(url)) {
            return Ok(DEV_TOKEN.to_owned());
        }
        let text = format!("a service elsewhere wants a token: {TOKEN_VARIABLE} or --token-file");
        Err(CommandError::Usage(text))
    }
}

/// Whether an address stays on this machine, whatever a resolver says.
fn is_loopback(url: &str) -> bool {
    let Ok(uri) = url.parse::<hyper::Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The service, as commands ask it.
pub(super) struct Service {
    pub(super) client: Client,
}

impl Service {
    /// An account, as the data plane sees it.
    pub(super) fn account(&self, account: &arguments::Account) -> purser_client::Account {
        self.client.account(account.tenant().clone()).in_unit(account.unit().clone())
    }

    /// An account by its names.
    pub(super) fn account_named(
        &self,
        tenant: &str,
        unit: &str,
    ) -> Result<purser_client::Account, CommandError> {
        let odd = |error: purser_types::IdError| CommandError::Usage(error.to_string());
        let tenant = TenantId::parse(tenant).map_err(odd)?;
        Ok(self.client.account(tenant).in_unit(Unit::parse(unit).map_err(odd)?))
    }

    /// The admin API.
    pub(super) fn admin(&self) -> Admin {
        self.client.admin()
    }

    /// An account, as operators see it.
    pub(super) fn admin_account(&self, account: &arguments::Account) -> AdminAccount {
        self.admin().account(account.tenant().clone()).in_unit(account.unit().clone())
    }

    /// A call that changes something, under the key that was named or a random one.
    pub(super) fn call(&self, key: &arguments::Key) -> Call {
        key.named().map_or_else(Call::new, Call::with_key)
    }

    /// A call that changes nothing.
    pub(super) fn read(&self) -> Call {
        Call::new()
    }

    /// What a change answered.
    pub(super) fn done<T>(
        &self,
        answered: Result<Answer<T>, ClientError>,
        output: &Output,
    ) -> Result<T, CommandError> {
        let answer = answered.map_err(failure)?;
        if answer.replayed {
            output.note("decided before, under the same key");
        }
        Ok(answer.body)
    }

    /// What a change answered that has no key, because it says what shall be.
    pub(super) fn said<T>(&self, answered: Result<T, ClientError>) -> Result<T, CommandError> {
        answered.map_err(|error| match error {
            ClientError::Unknown { last, .. } => {
                let text =
                    "it is not known whether it happened; to make sure, run the command again";
                CommandError::unreached(text, last)
            }
            error => failure(error),
        })
    }

    /// What a read found.
    pub(super) fn found<T>(&self, answered: Result<T, ClientError>) -> Result<T, CommandError> {
        answered.map_err(failure)
    }

    /// Writes a page of a list.
    pub(super) fn list<T: Serialize>(
        &self,
        answered: Result<List<T>, ClientError>,
        output: &Output,
        render: impl FnOnce(&[T]) -> String,
    ) -> Result<(), CommandError> {
        let list = self.found(answered)?;
        output.answer(&list, |list| render(&list.items))?;
        self.tell_next_page(list.next_cursor.as_ref(), output);
        Ok(())
    }

    /// Tells people how to go on; programs have it in the answer.
    pub(super) fn tell_next_page(&self, next: Option<&Cursor>, output: &Output) {
        if let (Some(cursor), Format::People) = (next, output.format()) {
            output.note(format_args!("there is more: --cursor {cursor}"));
        }
    }
}

/// What a failed call means for the process.
pub(super) fn failure(error: ClientError) -> CommandError {
    match error {
        ClientError::Refused(problem) => CommandError::Refused(problem),
        ClientError::Unknown { key: Some(key), last } => {
            let text = "it is not known whether it happened; to find out, run the command again \
                        with";
            CommandError::unreached(format!("{text} --key '{key}'"), last)
        }
        ClientError::Unknown { key: None, last } => {
            let text = "it is not known whether it happened; to find out, run the command again \
                        with the same keys";
            CommandError::unreached(text, last)
        }
        ClientError::Unreachable { last } => {
            CommandError::unreached("the service was not reached; nothing happened", last)
        }
        ClientError::Unsendable(why) => CommandError::Usage(why.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_sent_the_development_token() {
        for url in
            ["http://127.0.0.1:7700", "http://127.9.9.9", "http://[::1]:1", "http://localhost"]
        {
            assert!(is_loopback(url), "{url}");
        }
        for url in
            ["http://10.0.0.1:7700", "http://localhost.example", "http://127.0.0.1.example", ""]
        {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
