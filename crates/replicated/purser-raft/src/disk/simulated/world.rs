//! What is on a simulated disk: what programs see, what would survive a power failure, and the
//! chances in between.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::{DiskFault, SimulatedDisk};

/// Sectors are written whole or not at all, but in any order.
const SECTOR_BYTES: usize = 512;

/// Called at every write point with a disk on which the power fails there.
pub(super) type Observer = Box<dyn FnMut(SimulatedDisk) + Send>;

pub(super) struct World {
    /// What programs see.
    pub(super) names: BTreeMap<PathBuf, usize>,
    /// What survives a power failure.
    durable_names: BTreeMap<PathBuf, usize>,
    /// Changes of names that are not durable yet, oldest first.
    renamings: Vec<Renaming>,
    pub(super) dirs: BTreeSet<PathBuf>,
    files: Vec<FileState>,
    pub(super) locked: BTreeSet<PathBuf>,
    random: u64,
    pub(super) write_points: u64,
    pub(super) fault_at: Option<(u64, DiskFault)>,
    pub(super) broken: Option<DiskFault>,
    /// Counts processes; a file knows in whose life it was opened.
    pub(super) life: u64,
    pub(super) observer: Option<Observer>,
}

#[derive(Clone)]
pub(super) enum Renaming {
    Added { path: PathBuf, file: usize },
    Moved { from: PathBuf, to: PathBuf },
    Removed { path: PathBuf },
}

#[derive(Clone, Default)]
pub(super) struct FileState {
    pub(super) seen: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) unsynced: Vec<Change>,
}

#[derive(Clone)]
pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl World {
    pub(super) fn from_seed(seed: u64) -> Self {
        Self {
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            renamings: Vec::new(),
            dirs: BTreeSet::new(),
            files: Vec::new(),
            locked: BTreeSet::new(),
            random: seed,
            write_points: 0,
            fault_at: None,
            broken: None,
            life: 0,
            observer: None,
        }
    }

    /// The same disk with other misfortunes to come. Files that no name leads to are left out.
    pub(super) fn fork(&self, seed: u64) -> Self {
        let mut named: BTreeSet<usize> = self.names.values().copied().collect();
        named.extend(self.durable_names.values());
        named.extend(self.renamings.iter().filter_map(|renaming| match renaming {
            Renaming::Added { file, .. } => Some(*file),
            Renaming::Moved { .. } | Renaming::Removed { .. } => None,
        }));
        let keep = |(number, file): (usize, &FileState)| {
            if named.contains(&number) { file.clone() } else { FileState::default() }
        };
        Self {
            names: self.names.clone(),
            durable_names: self.durable_names.clone(),
            renamings: self.renamings.clone(),
            dirs: self.dirs.clone(),
            files: self.files.iter().enumerate().map(keep).collect(),
            locked: self.locked.clone(),
            write_points: self.write_points,
            fault_at: self.fault_at,
            broken: self.broken,
            life: self.life,
            ..Self::from_seed(seed)
        }
    }

    /// The next number of a splitmix64 sequence.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next_random() % limit).unwrap_or(0)
    }

    /// Passes a write point. `Ok(true)`: the power fails during this call.
    fn write_point(&mut self) -> io::Result<bool> {
        let this = self.write_points;
        self.write_points = this.saturating_add(1);
        if let Some(fault) = self.broken {
            return Err(error_of(fault));
        }
        match self.fault_at {
            Some((at, fault)) if at == this => {
                self.broken = Some(fault);
                if fault == DiskFault::PowerLoss { Ok(true) } else { Err(error_of(fault)) }
            }
            _ => Ok(false),
        }
    }

    fn observe(&mut self) {
        if let Some(mut observer) = self.observer.take() {
            observer(SimulatedDisk::of(self.fork(self.random)));
            self.observer = Some(observer);
        }
    }

    pub(super) fn readable(&self) -> io::Result<()> {
        match self.broken {
            Some(DiskFault::PowerLoss) => Err(error_of(DiskFault::PowerLoss)),
            _ => Ok(()),
        }
    }

    /// The power fails and comes back.
    pub(super) fn restart(&mut self) {
        let kept = self.below(self.renamings.len().saturating_add(1));
        let renamings = std::mem::take(&mut self.renamings);
        for renaming in renamings.into_iter().take(kept) {
            apply_renaming(&mut self.durable_names, renaming);
        }
        self.names = self.durable_names.clone();
        let mut files = std::mem::take(&mut self.files);
        for file in &mut files {
            for change in std::mem::take(&mut file.unsynced) {
                self.maybe_keep(&mut file.durable, change);
            }
            file.seen.clone_from(&file.durable);
        }
        self.files = files;
        self.end_process();
    }

    /// The process ends, and nothing else.
    pub(super) fn end_process(&mut self) {
        self.locked.clear();
        self.fault_at = None;
        self.broken = None;
        self.life = self.life.saturating_add(1);
    }

    fn maybe_keep(&mut self, durable: &mut Vec<u8>, change: Change) {
        match (self.below(3), change) {
            (0, _) => (),
            (1, change) => apply_change(durable, &change),
            (_, Change::Length(_)) => (),
            (_, Change::Write { offset, bytes }) => {
                let mut start = offset;
                for sector in bytes.chunks(SECTOR_BYTES) {
                    if self.below(2) == 0 {
                        let kept = self.below(sector.len().saturating_add(1));
                        let bytes = sector.get(..kept).unwrap_or_default().to_vec();
                        apply_change(durable, &Change::Write { offset: start, bytes });
                    }
                    start = start.saturating_add(sector.len());
                }
            }
        }
    }

    pub(super) fn change(&mut self, file: usize, life: u64, change: Change) -> io::Result<()> {
        let power_fails = self.write_point()?;
        let file = self.file_mut(file, life)?;
        apply_change(&mut file.seen, &change);
        file.unsynced.push(change);
        self.observe();
        finish(power_fails)
    }

    /// A failed sync forgets what it could not write: programs go on seeing it, and no later sync
    /// writes it. That is what an operating system does.
    pub(super) fn sync_data(&mut self, file: usize, life: u64) -> io::Result<()> {
        let passed = self.write_point();
        if passed.is_ok() {
            self.observe();
        }
        let has_power = self.broken != Some(DiskFault::PowerLoss);
        let file = self.file_mut(file, life)?;
        if has_power {
            let unsynced = std::mem::take(&mut file.unsynced);
            if passed.is_ok() {
                unsynced.iter().for_each(|change| apply_change(&mut file.durable, change));
            }
        }
        finish(passed?)
    }

    pub(super) fn rename(&mut self, renaming: Renaming) -> io::Result<()> {
        let power_fails = self.write_point()?;
        apply_renaming(&mut self.names, renaming.clone());
        self.renamings.push(renaming);
        self.observe();
        finish(power_fails)
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        let power_fails = self.write_point()?;
        self.observe();
        if power_fails {
            return finish(true);
        }
        let (synced, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.renamings).into_iter().partition(|renaming| {
                let path = match renaming {
                    Renaming::Added { path, .. } | Renaming::Removed { path } => path,
                    Renaming::Moved { to, .. } => to,
                };
                path.parent() == Some(dir)
            });
        self.renamings = rest;
        for renaming in synced {
            apply_renaming(&mut self.durable_names, renaming);
        }
        Ok(())
    }

    /// A new, empty file under `path`.
    pub(super) fn add(&mut self, path: &Path) -> io::Result<usize> {
        let file = self.files.len();
        self.files.push(FileState::default());
        self.rename(Renaming::Added { path: path.to_path_buf(), file })?;
        Ok(file)
    }

    pub(super) fn file_mut(&mut self, file: usize, life: u64) -> io::Result<&mut FileState> {
        if life != self.life {
            return Err(io::Error::other("opened by a process that has ended"));
        }
        self.files.get_mut(file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The file under `path`, whoever opened it.
    pub(super) fn named_mut(&mut self, path: &Path) -> Option<&mut FileState> {
        let file = *self.names.get(path)?;
        self.files.get_mut(file)
    }

    pub(super) fn existing(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn finish(power_fails: bool) -> io::Result<()> {
    if power_fails { Err(error_of(DiskFault::PowerLoss)) } else { Ok(()) }
}

fn error_of(fault: DiskFault) -> io::Error {
    match fault {
        DiskFault::PowerLoss => io::Error::other("the power failed"),
        DiskFault::InputOutput => io::Error::other("simulated input/output error"),
        DiskFault::NoSpace => io::ErrorKind::StorageFull.into(),
    }
}

fn apply_change(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(length) => bytes.resize(*length, 0),
        Change::Write { offset, bytes: written } => {
            let end = offset.saturating_add(written.len());
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            if let Some(place) = bytes.get_mut(*offset..end) {
                place.copy_from_slice(written);
            }
        }
    }
}

fn apply_renaming(names: &mut BTreeMap<PathBuf, usize>, renaming: Renaming) {
    match renaming {
        Renaming::Added { path, file } => {
            names.insert(path, file);
        }
        Renaming::Moved { from, to } => {
            if let Some(file) = names.remove(&from) {
                names.insert(to, file);
            }
        }
        Renaming::Removed { path } => {
            names.remove(&path);
        }
    }
}
