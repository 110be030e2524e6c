//! The data directory: what it keeps, and what it refuses.

use std::os::unix::fs::PermissionsExt;

use kringle_core::config::Settings;

use super::*;

fn empty_home() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path()).unwrap();
    (dir, home)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_new_directory_is_made_for_its_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b");
    let home = Home::open(&path).unwrap();
    assert_eq!(home.dir(), path);
    assert_eq!(mode(&path), 0o700);
    assert_eq!(fs::read(path.join("format")).unwrap(), b"1\n");
    let names = |dir: &Path| fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!(names(&path).len(), 2, "lock and format, nothing left over: {:?}", names(&path));
}

#[test]
fn what_is_not_a_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        assert!(matches!(Home::open(&path), Err(HomeError::NotADirectory { .. })), "{}", path.display());
    }
}

#[test]
fn an_unwritable_directory_is_told_from_a_broken_disk() {
    // The system's answers are played: to the superuser, whom tests may run as, nothing is unwritable.
    for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem] {
        let error = HomeError::from_io(Path::new("/data"), kind.into());
        assert!(matches!(error, HomeError::Unwritable { .. }), "{error}");
        assert!(error.remedy().contains("/data"));
    }
    let full = HomeError::from_io(Path::new("/data"), io::ErrorKind::StorageFull.into());
    assert!(matches!(full, HomeError::Io { .. }) && full.remedy().contains("space"));
}

#[test]
fn a_directory_where_no_file_can_be_made_is_refused_at_once() {
    let (dir, home) = empty_home();
    drop(home);
    fs::create_dir(dir.path().join("probe.next")).unwrap();
    assert!(Home::open(dir.path()).is_err());
}

#[test]
fn the_second_process_is_told_who_holds_the_directory() {
    let (dir, home) = empty_home();
    let error = Home::open(dir.path()).err().unwrap();
    let pid = std::process::id();
    assert!(matches!(error, HomeError::InUse { pid: Some(found), .. } if found == pid), "{error}");
    assert!(error.to_string().contains(&pid.to_string()) && error.remedy().contains(&pid.to_string()));
    let slot = home.tokens_slot();
    drop(home);
    assert!(Home::open(dir.path()).is_err(), "a file of it is still in use");
    drop(slot);
    assert!(Home::open(dir.path()).is_ok());
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let (dir, home) = empty_home();
    drop(home);
    let format = dir.path().join("format");
    fs::write(&format, "2\n").unwrap();
    assert!(matches!(Home::open(dir.path()), Err(HomeError::Newer { found: 2, known: 1, .. })));
    assert_eq!(fs::read(&format).unwrap(), b"2\n");
    for wrong in ["", "0\n", "x\n", "+1\n", "99999999999\n"] {
        fs::write(&format, wrong).unwrap();
        assert!(matches!(Home::open(dir.path()), Err(HomeError::Damaged { .. })), "{wrong:?}");
    }
}

#[test]
fn the_key_is_made_once_and_kept() {
    let (dir, home) = empty_home();
    let id = home.identity().unwrap().id();
    assert_eq!(home.identity().unwrap().id(), id);
    assert_eq!(mode(&dir.path().join("node.key")), 0o600);
    drop(home);
    assert_eq!(Home::open(dir.path()).unwrap().identity().unwrap().id(), id);
}

#[test]
fn a_key_that_others_may_read_is_refused_with_the_command_that_helps() {
    let (dir, home) = empty_home();
    let id = home.identity().unwrap().id();
    let path = dir.path().join("node.key");
    for exposed in [0o640, 0o604, 0o660, 0o644, 0o610] {
        set_mode(&path, exposed);
        let error = home.identity().err().unwrap();
        assert!(matches!(error, HomeError::Exposed { mode, .. } if mode == exposed), "{error}");
        assert_eq!(error.remedy(), format!("run: chmod 600 '{}'", path.display()));
    }
    for private in [0o600, 0o400] {
        set_mode(&path, private);
        assert_eq!(home.identity().unwrap().id(), id);
    }
}

#[test]
fn a_damaged_key_is_never_replaced() {
    let (dir, home) = empty_home();
    home.identity().unwrap();
    let path = dir.path().join("node.key");
    let good = fs::read(&path).unwrap();
    // All but the last line end, which says nothing.
    let mut damaged: Vec<Vec<u8>> = (0..good.len() - 1).map(|length| good[..length].to_vec()).collect();
    for at in 0..good.len() - 1 {
        let mut other = good.clone();
        other[at] ^= 1;
        damaged.push(other);
    }
    for content in damaged {
        fs::write(&path, &content).unwrap();
        let error = home.identity().err();
        assert!(matches!(error, Some(HomeError::Damaged { .. })), "{:?}", String::from_utf8_lossy(&content));
        assert_eq!(fs::read(&path).unwrap(), content);
    }
}

#[test]
fn a_member_whose_key_is_gone_does_not_become_another_node() {
    let (dir, home) = empty_home();
    home.identity().unwrap();
    home.set_cluster(&membership("blue", true)).unwrap();
    fs::remove_file(dir.path().join("node.key")).unwrap();
    assert!(matches!(home.identity(), Err(HomeError::KeyMissing { .. })));
}

#[test]
fn incarnations_only_rise() {
    let (dir, home) = empty_home();
    assert_eq!(home.next_incarnation(1000).unwrap(), 1000);
    assert_eq!(home.next_incarnation(1000).unwrap(), 1001);
    assert_eq!(home.next_incarnation(0).unwrap(), 1002, "a clock in the past");
    drop(home);
    let home = Home::open(dir.path()).unwrap();
    assert_eq!(home.next_incarnation(5).unwrap(), 1003, "after a restart");
    assert_eq!(home.next_incarnation(2000).unwrap(), 2000);
    assert_eq!(home.next_incarnation(u64::MAX).unwrap(), 2001, "a clock beyond belief");
    assert_eq!(home.raise_incarnation(100).unwrap(), 2001, "never lowered");
    assert_eq!(home.raise_incarnation(3000).unwrap(), 3000);
    assert_eq!(home.next_incarnation(0).unwrap(), 3001);
    assert_eq!(fs::read(dir.path().join("incarnation")).unwrap(), b"3001\n");
}

#[test]
fn the_last_incarnation_does_not_wrap() {
    let (_dir, home) = empty_home();
    home.raise_incarnation(u32::MAX - 1).unwrap();
    assert_eq!(home.next_incarnation(0).unwrap(), u32::MAX);
    assert_eq!(home.next_incarnation(0).unwrap(), u32::MAX);
}

#[test]
fn a_first_start_without_a_clock_still_counts() {
    let (_dir, home) = empty_home();
    assert_eq!(home.next_incarnation(0).unwrap(), 1);
}

#[test]
fn a_damaged_incarnation_is_not_guessed() {
    let (dir, home) = empty_home();
    for content in ["", "12", "x\n", "-1\n", "4294967296\n", "\n"] {
        fs::write(dir.path().join("incarnation"), content).unwrap();
        assert!(matches!(home.next_incarnation(5), Err(HomeError::Damaged { .. })), "{content:?}");
    }
}

#[test]
fn a_file_that_names_no_overlay_is_of_a_pastry_cluster_and_an_unknown_one_is_refused() {
    let (dir, home) = empty_home();
    home.set_cluster(&membership("blue", true)).unwrap();
    let path = dir.path().join("cluster.json");
    let json = fs::read_to_string(&path).unwrap();
    let with = |overlay: Option<&str>| {
        let mut file: serde_json::Value = serde_json::from_str(&json).unwrap();
        file["overlay"] = overlay.into();
        file.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        fs::write(&path, file.to_string()).unwrap();
        home.cluster()
    };
    let overlay = |of: &str| {
        protocol::show(
            protocol::OVERLAY,
            with(Some(of).filter(|of| !of.is_empty())).unwrap().unwrap().protocol.value(protocol::OVERLAY),
        )
    };
    assert_eq!((overlay(""), overlay("chord")), ("pastry".into(), "chord".into()));
    assert!(with(Some("mesh")).err().unwrap().to_string().contains("overlay unknown here"));
}

fn membership(name: &str, had_peers: bool) -> Membership {
    Membership {
        cluster: Cluster::open(name).unwrap(),
        certificate: None,
        had_peers,
        protocol: Protocol::of(&Settings::default()),
        copies_version: 0,
        lineage: None,
        discarded: false,
    }
}

#[test]
fn the_cluster_and_its_secret_are_kept() {
    let (dir, home) = empty_home();
    assert!(home.cluster().unwrap().is_none());
    let identity = home.identity().unwrap();
    let secret = Secret::from_text("rye");
    let cluster = Cluster::with_secret("blue", &secret).unwrap();
    let certificate = cluster.certify(&identity.public());
    let protocol = Protocol::of(&Settings { overlay: OverlayKind::Chord, slots: 16, ..Settings::default() });
    let (had_peers, lineage) = (false, Some(7));
    let written =
        Membership { cluster: cluster.clone(), protocol: protocol.clone(), ..membership("blue", had_peers) };
    let written = Membership { certificate, copies_version: 7, lineage, discarded: true, ..written };
    home.set_cluster(&written).unwrap();
    let read = home.cluster().unwrap().unwrap();
    assert_eq!((read.cluster.id(), read.certificate, read.had_peers), (cluster.id(), certificate, false));
    assert_eq!((read.lineage, read.discarded), (lineage, true));
    assert_eq!((read.protocol, read.copies_version), (protocol, 7));
    assert!(!read.cluster.can_certify(), "there is no secret yet");
    assert_eq!(read.cluster.check(&certificate.unwrap(), &identity.public()), Ok(()));

    home.set_secret(&cluster, &secret).unwrap();
    assert!(home.cluster().unwrap().unwrap().cluster.can_certify());
    assert!(home.secret().unwrap() == Some(secret.clone()));
    let path = dir.path().join("cluster.secret");
    assert_eq!(mode(&path), 0o600);
    let json = fs::read_to_string(dir.path().join("cluster.json")).unwrap();
    assert!(!json.contains(&secret.text()));

    set_mode(&path, 0o644);
    assert!(matches!(home.cluster(), Err(HomeError::Exposed { .. })));
    set_mode(&path, 0o600);
    fs::write(&path, "oat\n").unwrap();
    assert!(matches!(home.cluster(), Err(HomeError::WrongSecret { .. })));
    fs::write(&path, " \n").unwrap();
    assert!(matches!(home.cluster(), Err(HomeError::Damaged { .. })));
}

#[test]
fn an_open_cluster_leaves_no_secret_file() {
    let (dir, home) = empty_home();
    let open = Cluster::open("demo").unwrap();
    home.set_secret(&open, &Secret::empty()).unwrap();
    assert!(home.secret().unwrap().is_none() && !dir.path().join("cluster.secret").exists());
}

#[test]
fn a_node_that_had_peers_remembers_it_and_keeps_its_cluster() {
    let (_dir, home) = empty_home();
    home.set_cluster(&membership("blue", false)).unwrap();
    home.set_cluster(&membership("red", true)).unwrap();
    home.set_cluster(&membership("red", false)).unwrap();
    assert!(home.cluster().unwrap().unwrap().had_peers);
    let error = home.set_cluster(&membership("blue", true)).err().unwrap();
    assert!(matches!(&error, HomeError::OtherCluster { found, .. } if found == "red"), "{error}");
    let secret = Secret::from_text("rye");
    let other = Cluster::with_secret("red", &secret).unwrap();
    assert!(matches!(home.set_secret(&other, &secret), Err(HomeError::OtherCluster { .. })));
    assert_eq!(home.cluster().unwrap().unwrap().cluster.name(), "red");
}

#[test]
fn a_damaged_cluster_file_is_an_error() {
    let (dir, home) = empty_home();
    home.set_cluster(&membership("blue", true)).unwrap();
    let path = dir.path().join("cluster.json");
    let good = fs::read_to_string(&path).unwrap();
    for wrong in [
        String::new(),
        good.replace("blue", "BLUE"),
        good.replace("null", "\"00\""),
        good.replace("true", "7"),
    ] {
        fs::write(&path, &wrong).unwrap();
        assert!(matches!(home.cluster(), Err(HomeError::Damaged { .. })), "{wrong}");
        assert!(home.set_cluster(&membership("blue", false)).is_err(), "and is not overwritten");
    }
}

fn peer(n: u32) -> Remembered {
    let endpoints = vec![SocketAddr::from(([127, 0, 0, 1], 7400)), "[::1]:7401".parse().unwrap()];
    Remembered { id: NodeId::new(n.into()), incarnation: n, endpoints }
}

#[test]
fn peers_are_remembered_up_to_a_limit() {
    let (_dir, home) = empty_home();
    assert!(matches!(home.peers(), (list, None) if list.is_empty()));
    let peers: Vec<_> = (0..300).map(peer).collect();
    home.set_peers(&peers).unwrap();
    let (read, warning) = home.peers();
    assert!(warning.is_none());
    assert_eq!(read, peers[..REMEMBERED_MAX]);
}

#[test]
fn damaged_peers_are_forgotten_with_a_warning() {
    let (dir, home) = empty_home();
    home.set_peers(&[peer(1)]).unwrap();
    let path = dir.path().join("peers.json");
    let good = fs::read_to_string(&path).unwrap();
    for wrong in
        [&good[..good.len() / 2], "", "[]", &good.replace("127", "999"), &good.replace("0001\"", "g\"")]
    {
        fs::write(&path, wrong).unwrap();
        assert!(
            matches!(home.peers(), (list, Some(HomeError::Damaged { .. })) if list.is_empty()),
            "{wrong}"
        );
    }
    home.set_peers(&[peer(2)]).unwrap();
    assert!(matches!(home.peers(), (list, None) if list == [peer(2)]));
}

#[test]
fn a_file_is_replaced_whole_or_not_at_all() {
    let (dir, home) = empty_home();
    let slot = home.slot("some");
    assert!(slot.read().unwrap().is_none());
    slot.write(b"old").unwrap();
    // What a crash in the middle of writing leaves behind, with a mode of its own.
    let next = dir.path().join("some.next");
    fs::write(&next, "half of the n").unwrap();
    set_mode(&next, 0o666);
    assert_eq!(slot.read().unwrap().unwrap(), b"old");
    slot.write(b"new").unwrap();
    assert_eq!(slot.read_private().unwrap().unwrap(), b"new");
    assert!(!next.exists());
    fs::create_dir(&next).unwrap();
    assert!(slot.write(b"newer").is_err());
    assert_eq!(slot.read().unwrap().unwrap(), b"new", "a failed write changes nothing");
}

#[test]
fn a_huge_file_is_not_read() {
    let (dir, home) = empty_home();
    File::create(dir.path().join("peers.json")).unwrap().set_len(1 << 30).unwrap();
    assert!(matches!(home.peers(), (_, Some(HomeError::Damaged { .. }))));
}
