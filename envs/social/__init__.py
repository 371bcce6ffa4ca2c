"""Social dilemmas with messages: commons, public goods, trust and splitting."""
