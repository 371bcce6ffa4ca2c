"""Chores of VirtualHome as small symbolic machines."""
