//! What nearly every file above this floor uses of it, and of pgrx.

pub use crate::pg::error::{Error, ErrorReport, PgResult};
pub use crate::pg::spi::{Params, Session as Spi};
pub(crate) use crate::pg::spi::{params, record};
pub use crate::pg::sql_types::{JsonbText, Vector};
pub use crate::pg::{catalog, roles};
pub use pgrx::datum::Uuid;
pub use pgrx::prelude::*;
