//! The tokens of the configuration file. Secrets stand in files of their own, or are known by their
//! hash only.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use purser_types::TenantId;
use serde::Deserialize;

use super::ConfigError;
use crate::token::{Scope, Token, TokenHash};

/// `[[token]]`: somebody who may ask. Exactly one of `sha256` and `token-file`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TokenConfig {
    /// Names the token in entries and logs.
    pub name: String,
    /// SHA-256 of the secret, in hexadecimal.
    pub sha256: Option<String>,
    /// A file that contains the secret; white space around it is ignored.
    pub token_file: Option<PathBuf>,
    /// What it allows.
    pub scopes: BTreeSet<Scope>,
    /// Whose credits it reaches; everybody's if left out.
    pub tenants: Option<BTreeSet<String>>,
}

impl TokenConfig {
    pub(super) fn validate(&self) -> Result<Token, ConfigError> {
        let hash = match (&self.sha256, &self.token_file) {
            (Some(digits), None) => TokenHash::parse(digits)
                .map_err(|source| ConfigError::TokenHash { name: self.name.clone(), source })?,
            (None, Some(path)) => self.hash_of_file(path)?,
            _ => return Err(ConfigError::TokenSecret(self.name.clone())),
        };
        let tenants = self.tenants.as_ref().map(|names| {
            let tenant = |name: &String| {
                TenantId::parse(name)
                    .map_err(|source| ConfigError::TokenTenant { name: self.name.clone(), source })
            };
            names.iter().map(tenant).collect::<Result<_, _>>()
        });
        Ok(Token {
            name: self.name.as_str().into(),
            hash,
            scopes: self.scopes.clone(),
            tenants: tenants.transpose()?,
        })
    }

    fn hash_of_file(&self, path: &Path) -> Result<TokenHash, ConfigError> {
        let secret = std::fs::read(path)
            .map_err(|source| ConfigError::File { path: path.to_owned(), source })?;
        match secret.trim_ascii() {
            [] => Err(ConfigError::TokenEmpty(self.name.clone())),
            secret => Ok(TokenHash::of(secret)),
        }
    }
}
