ALTER DATABASE :name SET default_transaction_read_only = :value;
