//! Who may ask for what: bearer tokens and their scopes.
//!
//! A token is known by its SHA-256 only; the secret itself is never kept. Every node of a cluster
//! is configured with the same tokens, because a node that forwards a request passes the caller's
//! token on. Not here: expiry, revocation, identity providers.

use std::collections::BTreeSet;

use purser_types::TenantId;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Reads of the data plane.
    Read,
    /// The data plane.
    Spend,
    /// Everything.
    Admin,
}

impl Scope {
    /// All scopes, each allowing what the ones before it allow.
    pub const ALL: [Self; 3] = [Self::Read, Self::Spend, Self::Admin];

    /// The scope's name, as it stands in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Spend => "spend",
            Self::Admin => "admin",
        }
    }
}

/// SHA-256 of a token's secret.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

/// The text is not the hash of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 64 hexadecimal digits")]
pub struct InvalidTokenHash;

impl TokenHash {
    /// The hash of a secret.
    pub fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, InvalidTokenHash> {
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            b'A'..=b'F' => Ok(digit - b'A' + 10),
            _ => Err(InvalidTokenHash),
        };
        let mut hash = [0; 32];
        if text.len() != hash.len() * 2 {
            return Err(InvalidTokenHash);
        }
        for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let [high, low] = pair else { return Err(InvalidTokenHash) };
            *byte = nibble(*high)? << 4 | nibble(*low)?;
        }
        Ok(Self(hash))
    }
}

/// Somebody who may ask.
#[derive(Clone)]
pub struct Token {
    /// Names the token in entries and logs.
    pub name: Box<str>,
    /// What it is known by.
    pub hash: TokenHash,
    /// What it allows.
    pub scopes: BTreeSet<Scope>,
    /// Whose credits it reaches; everybody's if `None`.
    pub tenants: Option<BTreeSet<TenantId>>,
}

impl Token {
    /// Whether the token allows what needs `scope`.
    pub fn allows(&self, scope: Scope) -> bool {
        // The order of the scopes is the order of what they allow.
        self.scopes.range(scope..).next().is_some()
    }

    /// Whether the token reaches `tenant`.
    pub fn reaches(&self, tenant: &TenantId) -> bool {
        self.tenants.as_ref().is_none_or(|tenants| tenants.contains(tenant))
    }
}

impl std::fmt::Debug for Token {
    /// Without the hash, which is as good as the secret to somebody who guesses.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, scopes, tenants, hash: _ } = self;
        let mut fields = formatter.debug_struct("Token");
        fields.field("name", name).field("scopes", scopes).field("tenants", tenants);
        fields.finish_non_exhaustive()
    }
}

/// The token whose secret this is.
///
/// Takes the same time whichever token it is and however much of a hash is right.
pub(crate) fn find<'a>(
    tokens: &'a [std::sync::Arc<Token>],
    secret: &[u8],
) -> Option<&'a std::sync::Arc<Token>> {
    let TokenHash(presented) = TokenHash::of(secret);
    let mut found = None;
    for token in tokens {
        if bool::from(token.hash.0.ct_eq(&presented)) {
            found = Some(token);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn token(secret: &str, scopes: &[Scope]) -> Token {
        let (hash, scopes) = (TokenHash::of(secret.as_bytes()), scopes.iter().copied().collect());
        Token { name: secret.into(), hash, scopes, tenants: None }
    }

    #[test]
    fn a_token_is_found_by_its_secret_alone() {
        let tokens = [Arc::new(token("one", &[])), Arc::new(token("two", &[]))];
        assert_eq!(find(&tokens, b"two").map(|token| &*token.name), Some("two"));
        for odd in [&b""[..], b"tw", b"two ", b"Two"] {
            assert!(find(&tokens, odd).is_none());
        }
    }

    #[test]
    fn a_scope_includes_the_smaller_ones() {
        let allowed = |scopes: &[Scope]| Scope::ALL.map(|scope| token("t", scopes).allows(scope));
        assert_eq!(allowed(&[]), [false, false, false]);
        assert_eq!(allowed(&[Scope::Read]), [true, false, false]);
        assert_eq!(allowed(&[Scope::Spend]), [true, true, false]);
        assert_eq!(allowed(&[Scope::Admin]), [true, true, true]);
    }

    #[test]
    fn a_hash_is_read_from_its_digits() {
        let hash = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
        let TokenHash(read) = TokenHash::parse(hash).unwrap();
        assert_eq!(read, TokenHash::of(b"foo").0);
        assert!(TokenHash::parse(&hash[1..]).is_err());
        assert!(TokenHash::parse(&hash.replace('2', "g")).is_err());
    }
}
