//! Rows that leave and come back: exports, imports and restored dumps.

pub mod exports;
pub mod imports;
pub mod restores;
