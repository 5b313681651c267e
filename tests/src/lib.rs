//! Whole processes against each other.
