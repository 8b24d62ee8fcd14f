//! What becomes of memories: corrections, lives, documents and the rows that follow others.

pub mod documents;
pub mod followed_rows;
pub mod lifecycle;
pub mod update;
