"""Operations and transaction logs."""
