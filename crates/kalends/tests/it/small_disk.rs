//! Small and failing file systems. Tests print SKIPPED without permission to mount.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A small file system in memory, unmounted when dropped.
pub(crate) struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts a file system of a size such as `3m`.
    pub(crate) fn mount(size: &str) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        is_mounted(&["-t", "tmpfs", "-o", &options, "tmpfs"], folder.path())
            .then(|| SmallDisk(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Location of a store on this disk.
    pub(crate) fn store(&self) -> String {
        store_in(self.path())
    }

    /// Writes a file until the disk is full.
    pub(crate) fn fill(&self) {
        let mut file = File::create(self.filler()).unwrap();
        while file.write_all(&[0; 4_096]).is_ok() {}
    }

    /// Removes the file of [`SmallDisk::fill`].
    pub(crate) fn make_room(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        unmount(self.path());
    }
}

/// A thin-provisioned disk: a file system that is larger than the disk below it. Once that is full,
/// writes fail with an I/O error.
pub(crate) struct ThinDisk {
    folder: TempDir,
    below: SmallDisk,
}

impl ThinDisk {
    pub(crate) fn mount() -> Option<ThinDisk> {
        let below = SmallDisk::mount("8m")?;
        let (image, folder) = (below.path().join("image"), tempfile::tempdir().unwrap());
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let made = Command::new("mkfs.ext4").arg("-q").arg(&image).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfs.ext4 failed");
        let disk = ThinDisk { folder, below };
        disk.mount_image().then_some(disk)
    }

    fn mount_image(&self) -> bool {
        let image = self.below.path().join("image").display().to_string();
        is_mounted(&["-o", "loop", &image], self.folder.path())
    }

    /// Makes the file system read-only, as an error that it detects does.
    pub(crate) fn abort(&self) {
        assert!(is_mounted(&["-o", "remount,abort"], self.folder.path()), "cannot abort");
    }

    /// Makes the file system writable again after [`ThinDisk::abort`]. No file may be open.
    pub(crate) fn mount_again(&self) {
        let unmounted = Command::new("umount").arg(self.folder.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "cannot unmount");
        assert!(self.mount_image(), "cannot mount");
    }

    /// Location of a store on this disk.
    pub(crate) fn store(&self) -> String {
        store_in(self.folder.path())
    }

    /// Makes writes fail.
    pub(crate) fn fail(&self) {
        self.below.fill();
    }
}

impl Drop for ThinDisk {
    fn drop(&mut self) {
        unmount(self.folder.path());
    }
}

fn store_in(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("kalends.db").display())
}

fn is_mounted(arguments: &[&str], folder: &Path) -> bool {
    let mounted = Command::new("mount").args(arguments).arg(folder).output();
    let is_mounted = mounted.is_ok_and(|output| output.status.success());
    if !is_mounted {
        eprintln!("SKIPPED: no permission to mount a file system");
    }
    is_mounted
}

fn unmount(folder: &Path) {
    let _ = Command::new("umount").arg("-l").arg(folder).status();
}
