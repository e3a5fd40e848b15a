//! Parts of a world's state that copies of the world share until one of them changes.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A value behind an `Arc`, with its hash: copying and hashing a world costs what has changed.
#[derive(Clone, Debug)]
pub(crate) struct Shared<T> {
    value: Arc<T>,
    hash: Option<u64>,
}

impl<T: Clone + Hash> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        let mut new = Self { value: Arc::new(value), hash: None };
        new.seal();
        new
    }

    /// The value, to be changed; [`seal`](Self::seal) it afterwards.
    pub(crate) fn edit(&mut self) -> &mut T {
        self.hash = None;
        Arc::make_mut(&mut self.value)
    }

    /// Whether it was changed since it was sealed.
    pub(crate) fn is_edited(&self) -> bool {
        self.hash.is_none()
    }

    pub(crate) fn seal(&mut self) {
        if self.hash.is_none() {
            self.hash = Some(hash_of(&*self.value));
        }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Shared<T> {}

impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.hash {
            Some(hash) => hash.hash(state),
            None => hash_of(&*self.value).hash(state),
        }
    }
}

/// The same in every run.
pub(crate) fn hash_of<T: Hash>(value: &T) -> u64 {
    ahash::RandomState::with_seeds(0x6b76, 0x7065, 0x6572, 0x7369).hash_one(value)
}

/// What never changes in a world, and so is not looked at when worlds are compared.
#[derive(Debug)]
pub(crate) struct Fixed<T>(pub(crate) Arc<T>);

impl<T> Clone for Fixed<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Fixed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> PartialEq for Fixed<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Fixed<T> {}

impl<T> Hash for Fixed<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
