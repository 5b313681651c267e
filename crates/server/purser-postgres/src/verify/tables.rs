//! Which columns are compared, table by table.
//!
//! Not compared: which shard wrote a row. An account that has moved may have been projected from either
//! history.

/// A table as it is compared.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    /// The columns that name a row, in the table's order.
    pub(super) key: &'static [Key],
    /// The other columns.
    pub(super) columns: &'static [&'static str],
    /// Those of them that are amounts: first what a row is about, then others.
    pub(super) amounts: &'static [&'static str],
    /// Whether a row is forgotten when it ends. Each shard forgets by its own clock; what none has forgotten
    /// must be the same.
    pub(super) is_forgotten: bool,
}

/// Which rows count, beside those of accounts that are left out.
#[derive(Debug)]
pub(super) struct View {
    /// Rows that have ended by this instant do not.
    pub(super) cut: String,
}

/// A column of a key, and how it sorts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Key {
    /// As bytes.
    Text(&'static str),
    /// As a number.
    Number(&'static str),
}

const ACCOUNT: [Key; 2] = [Key::Text("tenant"), Key::Text("unit")];

/// Every table that is a projection of entries.
pub(super) const TABLES: &[Table] = &[
    Table {
        name: "entries",
        key: &[ACCOUNT[0], ACCOUNT[1], Key::Number("sequence")],
        columns: &[
            "epoch",
            "log_time",
            "kind",
            "postings",
            "moved",
            "operation_id",
            "key",
            "hold",
            "allocation",
            "lot",
            "reference",
            "actor",
            "reason",
            "request_id",
            "metadata",
            "prev_hash",
            "hash",
            "entry",
        ],
        amounts: &["moved"],
        is_forgotten: false,
    },
    Table {
        name: "balances",
        key: &ACCOUNT,
        columns: &[
            "sequence",
            "log_time",
            "hash",
            "granted",
            "available",
            "held",
            "used",
            "expired",
            "voided",
            "debt",
            "pending",
            "allocated",
            "authorized",
            "captured",
            "released",
            "refunded",
            "reclaimed",
        ],
        amounts: &[
            "granted",
            "available",
            "held",
            "used",
            "expired",
            "voided",
            "debt",
            "pending",
            "allocated",
        ],
        is_forgotten: false,
    },
    Table {
        name: "lots",
        key: &[ACCOUNT[0], ACCOUNT[1], Key::Number("number")],
        columns: &[
            "amount",
            "category",
            "priority",
            "effective_at",
            "expires_at",
            "source_ref",
            "phase",
            "waiting",
            "free",
            "held",
            "used",
            "expired",
            "voided",
            "allocated",
            "entry_sequence",
        ],
        amounts: &["amount", "waiting", "free", "held", "used", "expired", "voided", "allocated"],
        is_forgotten: false,
    },
    Table {
        name: "holds",
        key: &[ACCOUNT[0], ACCOUNT[1], Key::Number("allocation"), Key::Number("number")],
        columns: &[
            "region",
            "generation",
            "kind",
            "state",
            "amount",
            "captured",
            "refunded",
            "reclaimed",
            "held",
            "debt",
            "created_at",
            "expires_at",
            "reference",
            "lots",
            "spent",
            "entry_sequence",
        ],
        amounts: &["amount", "captured", "refunded", "reclaimed", "held", "debt"],
        is_forgotten: false,
    },
    Table {
        name: "allocated",
        key: &[ACCOUNT[0], ACCOUNT[1], Key::Text("region")],
        columns: &["amount"],
        amounts: &["amount"],
        is_forgotten: false,
    },
    Table {
        name: "accounts",
        key: &ACCOUNT,
        columns: &[
            "status",
            "home",
            "epoch",
            "opened_at",
            "debt_limit",
            "takeback_cap",
            "unacknowledged_max",
            "key_retention_micros",
            "record_retention_micros",
            "entry_sequence",
        ],
        amounts: &[],
        is_forgotten: false,
    },
    Table {
        name: "books",
        key: &[ACCOUNT[0], ACCOUNT[1], Key::Text("owner")],
        columns: &["key_retention_micros", "event_age_micros"],
        amounts: &[],
        is_forgotten: false,
    },
    Table {
        name: "keys",
        key: &[ACCOUNT[0], ACCOUNT[1], Key::Text("owner"), Key::Text("key")],
        columns: &["entry_sequence", "ends_at"],
        amounts: &[],
        is_forgotten: true,
    },
    Table {
        name: "events",
        key: &[ACCOUNT[0], ACCOUNT[1], Key::Text("source"), Key::Text("id")],
        columns: &["entry_sequence", "ends_at"],
        amounts: &[],
        is_forgotten: true,
    },
];

impl Key {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Text(name) | Self::Number(name) => name,
        }
    }
}

impl Table {
    /// Reads every row as an array of texts, in the order of the keys: key first, then the columns.
    pub(super) fn query(&self, view: &View) -> String {
        let keys: Vec<&str> = self.key.iter().map(|key| key.name()).collect();
        let texts = keys.iter().chain(self.columns).map(|column| format!("{column}::TEXT"));
        let texts = texts.collect::<Vec<_>>().join(", ");
        let (name, order) = (self.name, keys.join(", "));
        let cut = &view.cut;
        let alive = if self.is_forgotten {
            format!("ends_at > '{cut}'::TIMESTAMPTZ")
        } else {
            "TRUE".into()
        };
        format!(
            "SELECT ARRAY[{texts}] FROM {name} WHERE {alive} AND NOT EXISTS (
                 SELECT FROM left_out
                 WHERE left_out.tenant = {name}.tenant AND left_out.unit = {name}.unit)
             ORDER BY {order}"
        )
    }
}
