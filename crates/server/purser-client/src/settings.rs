//! What a client needs to know, and the defaults of the rest.

use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderValue;

use crate::backoff::Backoff;

/// How a client reaches the service.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The nodes of one region, `http://host:port` each. The next one is tried when one fails.
    pub base_urls: Vec<String>,
    /// The bearer token.
    pub token: String,
    /// How long a call may take in all, unless the call says otherwise.
    pub call_time: Duration,
    /// How long one attempt of a call may take. Shorter finds a healthy node sooner; much shorter
    /// than the service's own time-out asks again while the first request is still running.
    pub attempt_time: Duration,
    /// How long to wait between attempts.
    pub backoff: Backoff,
}

impl ClientSettings {
    /// Settings with the defaults.
    pub fn new<I>(base_urls: I, token: impl Into<String>) -> Self
    where
        I: IntoIterator<Item: Into<String>>,
    {
        Self {
            base_urls: base_urls.into_iter().map(Into::into).collect(),
            token: token.into(),
            // Room for a failover of a group's leader and a few attempts after it.
            call_time: Duration::from_secs(10),
            attempt_time: Duration::from_secs(3),
            backoff: Backoff::default(),
        }
    }
}

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// There is no base URL.
    #[error("a client needs at least one base url")]
    NoBaseUrl,
    /// Not an `http` URL with a host.
    #[error("{0:?} is not an http url with a host and without a query")]
    BaseUrl(String),
    /// The token cannot stand in a header.
    #[error("the token must be printable ASCII")]
    Token,
    /// The HTTP client could not be built.
    #[error("the http client cannot be built")]
    Http(#[source] reqwest::Error),
}

/// Checks base URLs; each comes back without a slash at its end.
pub(crate) fn checked_base_urls(base_urls: &[String]) -> Result<Vec<String>, SettingsError> {
    if base_urls.is_empty() {
        return Err(SettingsError::NoBaseUrl);
    }
    let check = |text: &String| {
        let url = Url::parse(text).ok().filter(|url| {
            let plain = url.query().is_none() && url.fragment().is_none();
            url.scheme() == "http" && url.has_host() && plain
        });
        url.map(|url| url.as_str().trim_end_matches('/').to_owned())
            .ok_or_else(|| SettingsError::BaseUrl(text.clone()))
    };
    base_urls.iter().map(check).collect()
}

/// The `Authorization` header, kept out of debug output.
pub(crate) fn authorization(token: &str) -> Result<HeaderValue, SettingsError> {
    let header = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut header = header.map_or(Err(SettingsError::Token), Ok)?;
    header.set_sensitive(true);
    Ok(header)
}
