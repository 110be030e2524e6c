//! The overlays by name and by number: for people, for the data directory, and for greetings.

use kringle_core::config::OverlayKind;

/// Returns what people call an overlay.
pub fn name(kind: OverlayKind) -> &'static str {
    match kind {
        OverlayKind::Pastry => "pastry",
        OverlayKind::Chord => "chord",
    }
}

/// Finds an overlay by its name.
pub fn by_name(text: &str) -> Option<OverlayKind> {
    [OverlayKind::Pastry, OverlayKind::Chord].into_iter().find(|kind| name(*kind) == text)
}

/// Returns the number of an overlay in greetings. A greeting that names none is of a Pastry node.
pub(crate) fn number(kind: OverlayKind) -> u64 {
    match kind {
        OverlayKind::Pastry => 0,
        OverlayKind::Chord => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for kind in [OverlayKind::Pastry, OverlayKind::Chord] {
            assert_eq!(by_name(name(kind)), Some(kind));
        }
        assert_eq!(by_name("mesh"), None);
    }
}
