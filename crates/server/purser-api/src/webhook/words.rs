//! What stands in calls about webhooks as text or as a small number.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use purser_types::{Sequence, SinkName, TenantId, Unit};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use crate::spelled::{Spelled, read_digits, spelled, text_schema};

/// The name of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebhookName(pub SinkName);

impl Spelled for WebhookName {
    const EXPECTED: &'static str = "a webhook's name as a string";

    fn read(text: &str) -> Result<Self, String> {
        SinkName::parse(text).map(Self).map_err(|error| format!("a webhook's name {error}"))
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.as_str())
    }

    fn describe() -> Schema {
        text_schema("The name of a webhook.", "^[a-z0-9_-]{1,64}$")
    }
}

/// Where events are sent: `https://host/path`. `http` only where the service allows private targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookUrl(String);

impl WebhookUrl {
    const BYTES_MAX: usize = 1_024;

    /// The address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Spelled for WebhookUrl {
    const EXPECTED: &'static str = "an address: https://host/path";

    fn read(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let authority = rest.map(|rest| rest.split(['/', '?']).next().unwrap_or_default());
        let names_a_host = authority.is_some_and(|it| !it.is_empty() && !it.contains('@'));
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains('#');
        if names_a_host && is_plain && text.len() <= Self::BYTES_MAX {
            Ok(Self(text.to_owned()))
        } else {
            let most = Self::BYTES_MAX;
            Err(format!("expected {}, of at most {most} bytes, without a user", Self::EXPECTED))
        }
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }

    fn describe() -> Schema {
        text_schema("Where events are sent.", "^https?://[!-~]{1,1016}$")
    }
}

/// What events are signed with: `whsec_` and the base64 of 24 to 64 bytes. It is never shown again.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(String);

impl WebhookSecret {
    const PREFIX: &'static str = "whsec_";

    /// The secret of these bytes; nothing if they are too few or too many.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let text = format!("{}{}", Self::PREFIX, BASE64.encode(bytes));
        Self::read(&text).ok()
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes that it stands for.
    pub fn key(&self) -> Vec<u8> {
        Self::key_of(&self.0).expect("the text was checked when the secret was made")
    }

    fn key_of(text: &str) -> Option<Vec<u8>> {
        let bytes = BASE64.decode(text.strip_prefix(Self::PREFIX)?).ok()?;
        (24..=64).contains(&bytes.len()).then_some(bytes)
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WebhookSecret(…)")
    }
}

impl Spelled for WebhookSecret {
    const EXPECTED: &'static str = "a secret: whsec_ and the base64 of 24 to 64 bytes";

    fn read(text: &str) -> Result<Self, String> {
        // The text itself does not get into a message.
        let known = Self::key_of(text).map(|_| Self(text.to_owned()));
        known.ok_or_else(|| format!("expected {}", Self::EXPECTED))
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }

    fn describe() -> Schema {
        let what = "`whsec_` and the base64 of 24 to 64 random bytes.";
        text_schema(what, "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$")
    }
}

/// Names a dead letter: `tenant~unit~sequence`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WebhookDeadLetterId {
    /// Whose.
    pub tenant: TenantId,
    /// What the account counts.
    pub unit: Unit,
    /// The entry.
    pub sequence: Sequence,
}

impl Spelled for WebhookDeadLetterId {
    const EXPECTED: &'static str = "a dead letter's id: tenant~unit~sequence";

    fn read(text: &str) -> Result<Self, String> {
        let parts = || {
            let (tenant, rest) = text.split_once('~')?;
            let (unit, sequence) = rest.split_once('~')?;
            Some(Self {
                tenant: TenantId::parse(tenant).ok()?,
                unit: Unit::parse(unit).ok()?,
                sequence: Sequence(read_digits(sequence)?),
            })
        };
        parts().ok_or_else(|| format!("expected {}", Self::EXPECTED))
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}~{}~{}", self.tenant, self.unit, self.sequence.0)
    }

    fn describe() -> Schema {
        let pattern = "^[A-Za-z0-9._:-]{1,128}~[a-z0-9_-]{1,32}~(0|[1-9][0-9]{0,19})$";
        text_schema("Names a dead letter of a webhook.", pattern)
    }
}

/// How often an event is tried before it becomes a dead letter: 1 to 50.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptsMax(u8);

impl AttemptsMax {
    /// As often as fits into three to four days.
    pub const DEFAULT: Self = Self(22);
    const MAX: u8 = 50;

    /// The number.
    pub fn get(self) -> u32 {
        self.0.into()
    }
}

impl Default for AttemptsMax {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// For how many seconds the secret before still signs: 0 to 604,800, which is 7 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverlapSeconds(u32);

impl OverlapSeconds {
    const MAX: u32 = 604_800;

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for OverlapSeconds {
    /// A day.
    fn default() -> Self {
        Self(86_400)
    }
}

/// How many dead letters one call redrives at most: 1 to 1,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedriveLimit(u16);

impl RedriveLimit {
    const MAX: u16 = 1_000;

    /// The number.
    pub fn get(self) -> u32 {
        self.0.into()
    }
}

impl Default for RedriveLimit {
    /// As many as may be.
    fn default() -> Self {
        Self(Self::MAX)
    }
}

/// Small numbers share everything but their bounds and words.
macro_rules! small_number {
    ($($name:ident($inner:ty), $least:literal, $expected:literal;)+) => {$(
        impl Spelled for $name {
            const EXPECTED: &'static str = $expected;

            fn read(text: &str) -> Result<Self, String> {
                let number = read_digits(text).and_then(Self::checked);
                number.ok_or_else(|| format!("expected {}", Self::EXPECTED))
            }

            fn read_integer(number: u64) -> Option<Result<Self, String>> {
                let number = Self::checked(number);
                Some(number.ok_or_else(|| format!("expected {}", Self::EXPECTED)))
            }

            fn write(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, formatter)
            }

            fn describe() -> Schema {
                ObjectBuilder::new()
                    .schema_type(Type::Integer)
                    .minimum(Some($least))
                    .maximum(Some(Self::MAX))
                    .default(Some(Self::default().0.into()))
                    .into()
            }
        }

        impl $name {
            fn checked(number: u64) -> Option<Self> {
                let number = <$inner>::try_from(number).ok()?;
                ($least..=Self::MAX).contains(&number).then_some(Self(number))
            }
        }
    )+};
}

small_number! {
    AttemptsMax(u8), 1, "a number of attempts from 1 to 50";
    RedriveLimit(u16), 1, "a number of dead letters from 1 to 1000";
    OverlapSeconds(u32), 0, "a number of seconds from 0 to 604800";
}

spelled!(
    WebhookName,
    WebhookUrl,
    WebhookSecret,
    WebhookDeadLetterId,
    AttemptsMax,
    RedriveLimit,
    OverlapSeconds,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_strictly_and_never_printed() {
        let secret: WebhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        assert_eq!(secret.key().len(), 24);
        assert_eq!(WebhookSecret::of(&secret.key()), Some(secret.clone()));
        assert_eq!(format!("{secret:?}"), "WebhookSecret(…)");
        for odd in ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_MfKQ9r8GKYo=", "whsec_?"] {
            let error = odd.parse::<WebhookSecret>().unwrap_err().to_string();
            assert!(!error.contains("MfKQ"), "{error}");
        }
    }

    #[test]
    fn an_address_names_a_host_and_no_user() {
        for good in ["https://a.example", "https://[::1]:8443/x?y=1", "http://127.0.0.1:9/"] {
            assert!(good.parse::<WebhookUrl>().is_ok(), "{good}");
        }
        for odd in
            ["", "a.example", "ftp://a", "https://", "https://u@a/", "https://a/#b", "https://a/ä"]
        {
            assert!(odd.parse::<WebhookUrl>().is_err(), "{odd}");
        }
    }

    #[test]
    fn a_dead_letter_has_one_id() {
        let id: WebhookDeadLetterId = "team:a~credits~42".parse().unwrap();
        assert_eq!(id.to_string(), "team:a~credits~42");
        for odd in ["a~credits", "a~credits~042", "a~Credits~1", "~credits~1", "a~b~1~2"] {
            assert!(odd.parse::<WebhookDeadLetterId>().is_err(), "{odd}");
        }
    }
}
