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

/// Returns the number of an overlay in greetings. Whoever names none has Pastry.
pub(crate) fn number(kind: OverlayKind) -> u8 {
    match kind {
        OverlayKind::Pastry => 0,
        OverlayKind::Chord => 1,
    }
}

/// Returns what to call the overlay of a peer, which may be one this version does not have.
pub(crate) fn name_of(number: u8) -> &'static str {
    match number {
        0 => name(OverlayKind::Pastry),
        1 => name(OverlayKind::Chord),
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back() {
        for kind in [OverlayKind::Pastry, OverlayKind::Chord] {
            assert_eq!(by_name(name(kind)), Some(kind));
            assert_eq!(name_of(number(kind)), name(kind));
        }
        assert_eq!((by_name("mesh"), name_of(7)), (None, "unknown"));
    }
}
