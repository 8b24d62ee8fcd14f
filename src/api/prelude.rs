//! What nearly every function of the SQL surface uses.

pub use crate::api::arguments::WithinLimits;
pub use crate::identity::grants::Level;
pub(crate) use crate::identity::{self, Caller};
pub use crate::pg::prelude::*;

/// The rows of a function that returns a set of them. sql/schema names the columns.
pub type Rows<T> = PgResult<TableIterator<'static, T>>;
