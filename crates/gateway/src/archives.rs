//! Files that come packed: what is in a ZIP archive, one file after the other.

use std::io::{Read, Seek};
use zip::ZipArchive;

/// How a ZIP archive begins.
pub const ZIP: &[u8] = b"PK\x03\x04";
/// How a file begins that is compressed with gzip.
pub const GZIP: &[u8] = &[0x1f, 0x8b];

/// Hands out those files of an archive whose names are wanted.
///
/// # Errors
/// `broken()` where the archive cannot be read, and what `each` returns.
pub fn each_file<R: Read + Seek, E>(
    archive: &mut ZipArchive<R>,
    wanted: impl Fn(&str) -> bool,
    broken: impl Fn() -> E,
    mut each: impl FnMut(String, &mut dyn Read) -> Result<(), E>,
) -> Result<(), E> {
    for number in 0..archive.len() {
        let mut file = archive.by_index(number).map_err(|_| broken())?;
        let name = file.name().to_owned();
        if wanted(&name) {
            each(name, &mut file)?;
        }
    }
    Ok(())
}
