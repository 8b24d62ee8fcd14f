//! What nearly every file above this floor uses of it, and of pgrx.

pub use crate::pg::error::{Error, ErrorReport, PgResult};
pub use crate::pg::params::Params;
pub(crate) use crate::pg::params::params;
pub use crate::pg::spi::Session as Spi;
pub(crate) use crate::pg::spi::record;
pub use crate::pg::sql_types::{Fraction, JsonbText, Vector, Whole};
pub use crate::pg::{catalog, roles};
pub use pgrx::datum::Uuid;
pub use pgrx::prelude::*;
