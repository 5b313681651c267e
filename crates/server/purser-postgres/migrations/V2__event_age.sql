-- How long home remembers usage events after their time, so that `events` knows when a row ends.
-- NULL: as long as the ledger does by itself; of a region's book, which takes no events.
ALTER TABLE books ADD COLUMN event_age_micros NUMERIC(20, 0);
