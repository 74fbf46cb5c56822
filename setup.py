"""Finds the packages and puts ``schemas/`` into them as ``execsrv._schemas``; the rest is in ``setup.cfg``."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["execsrv", "execsrv.*"]), "execsrv._schemas"],
    package_dir={"execsrv._schemas": "schemas"},
    package_data={"execsrv": ["py.typed"], "execsrv._schemas": ["*.json", "tools/*.json"]},
)
